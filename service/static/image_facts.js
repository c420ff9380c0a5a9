// What the headers of a picture say of the image that it shows.

/** {size, windowing, frames, spacing, modality} of the headers of a picture; null, 1 and "" where they do not say. */
export function imageFacts(headers) {
  const numbers = (name) => headers.get(name)?.split(",").map(Number) ?? null;
  const [size, window, spacing] = ["Image-Size", "Image-Window", "Image-Spacing"].map(numbers);
  return {
    size: size && { width: size[0], height: size[1] },
    windowing: window && { window, values: numbers("Image-Values") },
    frames: Number(headers.get("Image-Frames") ?? 1),
    spacing: spacing && { rows: spacing[0], columns: spacing[1] },
    modality: headers.get("Image-Modality") ?? "",
  };
}
