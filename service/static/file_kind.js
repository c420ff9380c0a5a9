// The kind of a file by its first bytes, as the service recognises it.

const SIGNATURES = [["png", /^\x89PNG/], ["jpeg", /^\xff\xd8\xff/], ["tiff", /^(II[*+]\0|MM\0[*+])/], ["bmp", /^BM/], ["zip", /^PK(\x03\x04|\x05\x06)/]];
const GZIP = /^\x1f\x8b/;
const NIFTI_1 = 344; // offset of "n+1", after a header of 348 bytes

const text = (bytes, start, end) => String.fromCharCode(...bytes.subarray(start, end));

/** Tell whether a DICOM data set without preamble starts here: a short element of group 2 or 8. */
function lacksPreamble(bytes) {
  if (bytes.length < 12) return false;
  const view = new DataView(bytes.buffer, bytes.byteOffset);
  const explicit = /^[A-Z]{2}$/.test(text(bytes, 4, 6));
  return [true, false].some((little) => {
    const [group, number] = [view.getUint16(0, little), view.getUint16(2, little)];
    const length = explicit ? view.getUint16(6, little) : view.getUint32(4, little);
    return (group === 2 || group === 8) && number <= 0x100 && length <= 1024;
  });
}

/** "dicom", "png", "jpeg", "tiff", "bmp", "nifti" or "zip"; null for other files. name: needed for .nii.gz alone. */
export function fileKind(bytes, name) {
  if (text(bytes, 128, 132) === "DICM" || lacksPreamble(bytes)) return "dicom";
  if (text(bytes, NIFTI_1, NIFTI_1 + 3) === "n+1" || text(bytes, 4, 7) === "n+2") return "nifti";
  const start = text(bytes, 0, 4);
  if (GZIP.test(start)) return /\.nii\.gz$/i.test(name) ? "nifti" : null;
  return SIGNATURES.find(([, signature]) => signature.test(start))?.[0] ?? null;
}

const HEAD_BYTES = 512;
const DEPTH = 24; // offset of the bits of a sample in a PNG file
const shown = new WeakMap(); // promises by file

/** Whether the browser shows a file as the service does: a PNG, JPEG or BMP of 8 bits. */
export function isShownByBrowser(file) {
  if (!shown.has(file)) {
    const look = async () => {
      const bytes = new Uint8Array(await file.slice(0, HEAD_BYTES).arrayBuffer());
      const kind = fileKind(bytes, file.name);
      return ["jpeg", "bmp"].includes(kind) || (kind === "png" && bytes[DEPTH] !== 16);
    };
    shown.set(file, look().catch(() => false)); // a file that is gone: the request says so
  }
  return shown.get(file);
}
