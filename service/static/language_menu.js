// Choosing a language by hand: the page of the current address, which scripts may have changed, in that language.

for (const link of document.querySelectorAll("#languages a")) {
  link.addEventListener("click", () => {
    const query = new URLSearchParams(location.search);
    query.set("lang", link.hreflang);
    link.search = query;
  });
}
