// What a page asks for: pairs to compare, or single images to grade.

export const TASKS = {
  pairs: {
    address: "/annotate/pairs",
    items: ({ pairs }) => pairs.map(({ first, second }) => ({ ids: [first, second] })),
    /** The item that an answer is about; null for a grade, which leaves the pair on the screen. */
    itemOf: ({ first, second }) => (first ? { ids: [first, second] } : null),
    /** Address and body of an answer: first, second, alike or skip. */
    request: ({ ids: [first, second] }, answer) => ["/annotate/judgements", { first, second, answer }],
    skipped: "skip",
  },
  images: {
    address: "/annotate/images",
    items: ({ images }) => images.map((image) => ({ ids: [image] })),
    itemOf: ({ image }) => (image ? { ids: [image] } : null),
    /** Address and body of an answer: a grade, or null for an image that cannot be judged. */
    request: ({ ids: [image] }, grade) => ["/annotate/grades", { image, grade }],
    skipped: null,
  },
};
