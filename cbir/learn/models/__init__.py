"""Networks, which need the extra `deep` (torch, torchvision, safetensors), and linear ranking functions."""
