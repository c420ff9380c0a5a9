// What a search says of its re-ranking and of other sites, which is English, in the language of the page.

import { mark, tr } from "./translate.js";

const TEMPLATES = [
  mark("no other method is clearly better on {images} images by {label}: {quality}"),
  mark("preferred to other parameters on {images} images by {label}: {quality}"),
  mark("preferred to {method} on {images} images by {label}: {quality}"),
  mark("{method} does not gain on {images} images by {label}: {quality}"),
  mark("without re-ranking {quality}"),
  mark("the best in general"),
  mark("methods were not compared on labelled images"),
  mark("no method gains with {descriptor} alone"),
  mark("the method of the whole collection"),
  mark("learns from several examples and from judgements"),
  mark("only {images} images: no negatives to train on"),
  mark("SVM re-ranking skipped"),
  mark("no SVM was trained"),
  mark("{count} negatives for each SVM instead of {expected}: there are no more images"),
  mark("The index does not answer, or is not built yet. All images were compared in place of its candidates."),
  mark("Images beyond the candidates count by a sample of them alone."),
  mark("A search in more images than it can re-rank ranks {count} at most."),
  mark("Relevance flows among the nearest images alone: the graph of neighbours of all images is not built yet."),
  mark("the best {count} of {total} by an index and {reached} that relevance reaches from them"),
  mark("the best {count} by an index and {reached} that relevance reaches from them"),
  mark("the best {count} of {total} by an index"),
  mark("the best {count} by an index"),
  mark("labels of {count} results are left out, since an answer has at most {size} MiB of labels"),
  mark("{count} candidates"),
  mark("each site has re-ranked its own images, and their ranks are merged"),
  mark("{count} places are kept for its images, although others are said to be nearer"),
  mark("{count} of {total} results contradict themselves and are left out"),
  mark("labels or thumbnails of {count} results are not as agreed and are left out"),
  mark("{count} results do not fulfil the conditions and are left out"),
].map((template) => ({ template, form: formOf(template) }));

function formOf(template) {
  const escaped = template.replace(/[.*+?^$()|[\]\\]/g, "\\$&");
  return new RegExp(`^${escaped.replace(/\{(\w+)\}/g, "(?<$1>.+)")}$`);
}

/** The reason for a method, a note, or what was searched; parts that are not known stay English. */
export function rerankText(text) {
  return text.split("; ").map(part).join("; ");
}

function part(text) {
  for (const { template, form } of TEMPLATES) {
    const match = form.exec(text);
    if (match) return tr(template, match.groups);
  }
  return text;
}
