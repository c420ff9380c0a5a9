"""Failures of an XNAT server; apart from the session, which needs an extra."""


class XnatFailed(Exception):
    """An XNAT server refuses, or does not deliver what it should. The message repeats nothing that it answered."""


class XnatSilent(XnatFailed):
    """An XNAT server does not answer, however often it is asked. is_overloaded: it says so itself."""

    def __init__(self, text: str, is_overloaded: bool = False) -> None:
        super().__init__(text)
        self.is_overloaded = is_overloaded
