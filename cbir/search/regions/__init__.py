"""Parts of images: explanations of why an image is similar, and where a region is matched."""
