"""Options of rankers and baselines, as the commands take them."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from cbir.descriptors.encoders.built_in import check_trainable_encoder
from cbir.errors import InvalidInput
from cbir.learn.grading.baselines import ClassificationGrader, OrdinalRegression, RegressionGrader
from cbir.learn.grading.boosted_rankers import AdaRank, RankBoost
from cbir.learn.grading.cnn_ranker import LOSSES as CNN_LOSSES
from cbir.learn.grading.cnn_ranker import TUNED_CNN_SIDE, CnnRanker, TunedCnnRanker
from cbir.learn.grading.interpolation import Smoothing
from cbir.learn.grading.picture_maps import parse_windows
from cbir.learn.grading.s_ndcg_ranker import SNdcgRanker
from cbir.learn.models.linear_rankers import LOSSES as SVM_LOSSES
from cbir.learn.models.linear_rankers import RankingSVM
from cbir.learn.option_groups import RankerChoices

NO_ENCODER = "none"
AUTO = "auto"
TUNED_CNN = ("encoder", "fine_tune", "epochs", "mirror", "window", "networks", "side")
SMALL_CNN = ("encoder", "epochs", "mirror", "loss", "rate")
OPTIONS = {
    SNdcgRanker.name: (
        "kernel", "form", "function", "alpha", "start", "steps", "rate", "training_list_size"
    ),
    RankingSVM.name: ("kernel", "c", "loss", "training_list_size"),
    AdaRank.name: ("training_list_size",),
    RankBoost.name: ("training_list_size",),
    RegressionGrader.name: ("kernel", "c"),
    ClassificationGrader.name: ("classifier",),
    OrdinalRegression.name: ("kernel",),
}  # fmt: skip
PARAMETERS = {"c": "C", "training_list_size": "list_size", "fine_tune": "blocks"}
LOSSES = {RankingSVM.name: SVM_LOSSES, CnnRanker.name: CNN_LOSSES}


class RankerOptions(RankerChoices):
    """Options of rankers; None is the default of the ranker, for the kernel "auto".

    Attributes
    ----------
    kernel : str, optional
        Of s-ndcg and ranking-svm: auto, linear or rbf. regression and ordinal tune theirs with auto; else they have
        their own.
    form, function, start : str, optional
        Of s-ndcg, see `SNdcgRanker`.
    alpha, steps : float and int, optional
        Of s-ndcg.
    rate : float, optional
        Length of a step of s-ndcg; learning rate of cnn without an encoder.
    c : float, optional
        C of ranking-svm, and of regression without tuned kernels.
    loss : str, optional
        Of ranking-svm: squared-hinge or hinge; of cnn without an encoder: ranknet, s-ndcg or sodeep-spearman.
    classifier : str, optional
        Of classification: svm or lda.
    training_list_size : str, optional
        Images per list of s-ndcg, ranking-svm, adarank and rankboost in training, or all.
    encoder : str, optional
        Of cnn; none: the small network.
    fine_tune, epochs, networks, side : int, optional
        Of cnn with an encoder; epochs without one too.
    mirror : bool
        Of cnn.
    window : str, optional
        Of cnn with an encoder.
    """

    def build_all(self, names: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Return the parameters of each ranker or baseline of `names`.

        Raises InvalidInput if none of them takes an option, or it is out of range.
        """
        valid_options = {option for name in names for option in self._options_of(name)}
        if refused := [_flag(option) for option in self._set_options() if option not in valid_options]:
            listed = ", ".join(_flag(option) for name in names for option in self._options_of(name))
            raise InvalidInput(
                f"{', '.join(names)} {'do' if len(names) > 1 else 'does'} not take {', '.join(refused)}; "
                f"options: {listed or 'none'}"
            )
        return {name: self._build(name) for name in names}

    def picture_side(self) -> int:
        """Return the side of the pictures of cnn in pixels."""
        return TUNED_CNN_SIDE if self.side is None else self.side

    def smooths(self, name: str) -> bool:
        """Return whether a ranker or baseline grades by thresholds or neighbours, not by itself."""
        tuned_cnn = name == CnnRanker.name and self.encoder != NO_ENCODER
        return name != ClassificationGrader.name and not tuned_cnn

    def smoothing(self, text: str | None, names: Sequence[str]) -> Smoothing:
        """Parse the option --smoothing of some rankers and baselines; None for the default, thresholds.

        Raises InvalidInput for another value, or if none of `names` uses it.
        """
        if text is None or text == "thresholds":
            parsed: Smoothing = "thresholds"
        elif text == "auto":
            parsed = "auto"
        else:
            try:
                parsed = int(text)
            except ValueError:
                raise InvalidInput(f"--smoothing {text}: must be an odd number, auto or thresholds") from None
        if text is not None and not any(map(self.smooths, names)):
            raise InvalidInput(f"{', '.join(names)} does not take --smoothing")
        return parsed

    def _set_options(self) -> dict[str, Any]:
        return {
            option: value
            for option, value in asdict(self).items()
            if value is not None and value is not False
        }

    def _options_of(self, name: str) -> tuple[str, ...]:
        """Return the options that a ranker takes; those of others decide for regression and cnn."""
        if name == CnnRanker.name:
            return SMALL_CNN if self.encoder == NO_ENCODER else TUNED_CNN
        if name == RegressionGrader.name and self.kernel in (None, AUTO):
            return ("kernel",)  # ridge regression has no C
        return OPTIONS.get(name, ())

    def _build(self, name: str) -> dict[str, Any]:
        valid_options = self._options_of(name)
        params = {
            PARAMETERS.get(option, option): value
            for option, value in self._set_options().items()
            if option in valid_options
        }
        if "list_size" in params:
            params["list_size"] = parse_list_size(params["list_size"], "--training-list-size")
        if name in LOSSES and params.get("loss", LOSSES[name][0]) not in LOSSES[name]:
            raise InvalidInput(f"--loss of {name} is one of {', '.join(LOSSES[name])}, not {self.loss!r}")
        if "kernel" in valid_options:
            params["kernel"] = self.kernel or AUTO
        if name in (RegressionGrader.name, OrdinalRegression.name) and params["kernel"] != AUTO:
            del params["kernel"]  # its own
        if name == CnnRanker.name:
            params.pop("side", None)
            if params.pop("encoder", None) != NO_ENCODER:
                params["encoder"] = self.encoder or TunedCnnRanker.encoder
                check_trainable_encoder(params["encoder"])
                windows, networks = parse_windows(params.get("window", AUTO)), params.get("networks", 1)
                if len(windows) > networks:
                    raise InvalidInput(
                        f"--window names {len(windows)} windows for {networks} of --networks; "
                        "each network sees one"
                    )
        return params


def parse_list_size(text: str, option: str) -> int | None:
    """Return the number of images per list; None for "all". Raises InvalidInput, with the name of the option."""
    if text == "all":
        return None
    try:
        return int(text)
    except ValueError:
        raise InvalidInput(f"{option} {text}: must be a number of images or all") from None


def _flag(option: str) -> str:
    return "--" + option.replace("_", "-")
