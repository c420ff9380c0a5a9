// What all pages have: menus, colours, the choice of a language.

import { install } from "./theme.js";

install();
for (const link of document.querySelectorAll("#languages a")) {
  link.addEventListener("click", () => { // the page of the current address, which scripts may have changed
    const query = new URLSearchParams(location.search);
    query.set("lang", link.hreflang);
    link.search = query;
    link.hash = location.hash;
  });
}
