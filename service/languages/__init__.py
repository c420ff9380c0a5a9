"""Languages of the pages: catalogues of translated messages, and the choice of one for a request."""

from service.languages.request_language import current_language, gettext, mark, ngettext, use_english

__all__ = ["current_language", "gettext", "mark", "ngettext", "use_english"]
