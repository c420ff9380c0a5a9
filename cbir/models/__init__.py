"""Networks: needs the extra `deep` (torch, torchvision, safetensors)."""
