"""Hooks of MkDocs: pages from outside docs/, generated pages, and links."""

import logging
from typing import Any

from mkdocs.structure.files import File

from docs_site.references import command_page, http_page, settings_page
from docs_site.source_pages import ROOT, notebook_markdown, notebook_pages, outside_pages, rewrite_links

log = logging.getLogger("mkdocs.docs_site")
GENERATED = {
    "reference/commands.md": command_page,
    "reference/settings.md": settings_page,
    "reference/http.md": http_page,
}


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that are not files of docs/."""
    for source, target in outside_pages().items():
        files.append(File.generated(config, target, abs_src_path=str(ROOT / source)))
    for source, target in notebook_pages().items():
        files.append(File.generated(config, target, content=notebook_markdown(ROOT / source)))
    for target, page in GENERATED.items():
        files.append(File.generated(config, target, content=page()))
    return files


def on_page_markdown(text: str, page: Any, config: Any, files: Any) -> str:
    """Rewrite the links of a page; warn about those that lead nowhere, which ends a strict build."""
    if page.parent is None:  # a page beside the sections: there is nothing to list beside it
        page.meta["hide"] = ["navigation"]
    outside = outside_pages()
    pages = {f"docs/{file.src_uri}": file.src_uri for file in files} | outside | notebook_pages()
    sources = {target: source for source, target in (outside | notebook_pages()).items()}
    source = sources.get(page.file.src_uri, f"docs/{page.file.src_uri}")
    return rewrite_links(text, source, page.file.src_uri, pages, log.warning)
