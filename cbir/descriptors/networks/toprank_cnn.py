"""The small network of Zheng et al., Top-rank CNN, section 4.3: three convolutions and two fully connected layers."""

from typing import cast

from torch import Tensor, nn

CHANNELS = (16, 32, 64)
POOLED_SIDE = 2  # positions per side after the convolutions
FEATURES = 128


class TopRankCnn(nn.Module):
    """Map images (n, channels, height, width) to features (n, 128); the second connected layer is the ranker's head.

    ReLU and max-pooling follow each convolution, as in the paper, which gives no widths. Batch normalisation and the
    pooling to 2 x 2 are ours: training from scratch needs fewer steps, and images may have any size.
    """

    def __init__(self, channels: int = 1) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for inputs, outputs in zip((channels, *CHANNELS), CHANNELS, strict=False):
            convolution = nn.Conv2d(inputs, outputs, 3, padding=1, bias=False)
            layers += [convolution, nn.BatchNorm2d(outputs), nn.ReLU(), nn.MaxPool2d(2)]
        connected = nn.Linear(CHANNELS[-1] * POOLED_SIDE**2, FEATURES)
        pool = nn.AdaptiveAvgPool2d(POOLED_SIDE)
        self.layers = nn.Sequential(*layers, pool, nn.Flatten(), connected, nn.ReLU())

    def forward(self, images: Tensor) -> Tensor:
        return cast(Tensor, self.layers(images))
