"""Packages and files that the intake check needs."""


def require_weights(intake: str) -> None:
    """Raise InvalidInput with the remedy if images are to be checked, and the weights are not installed.

    intake: the setting.
    """
    if intake != "accept":
        from cbir.intake.text_reader import reader_path  # not imported where nothing is checked

        reader_path()
