"""Networks of torchvision, timm and Hugging Face as encoders; needs the extra `hub`."""
