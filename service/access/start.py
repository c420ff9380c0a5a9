"""What must be settled before the service listens where others reach it."""

import ssl

from cbir.errors import InvalidInput
from cbir.settings import Settings
from service.access.audit import AuditLog
from service.access.tokens import Tokens
from service.guards import ANY_ADDRESS, is_loopback

AUDIT_FILE = "audit.jsonl"


def tokens_required(settings: Settings) -> bool:
    """Whether requests need a token: always where others reach the address, or a proxy brings them."""
    if not is_loopback(settings.host):
        return True
    if settings.require_tokens is None:
        return bool(settings.trusted_proxies or settings.allowed_hosts)
    return settings.require_tokens


def open_audit(settings: Settings) -> AuditLog | None:
    """The audit log, if there is to be one; raises InvalidInput where it cannot be written."""
    default = settings.state_folder / AUDIT_FILE if tokens_required(settings) else None
    path = settings.audit_log or default
    return AuditLog(path) if path else None


def check(settings: Settings) -> None:
    """Raise InvalidInput, with what to do, where the service may not start with these settings."""
    _check_certificate(settings)
    if not is_loopback(settings.host):
        _check_reachable(settings)
    if tokens_required(settings) and not _has_valid_token(settings):
        raise InvalidInput(
            f"{_why(settings)} tokens are needed, and {settings.state_folder} has no valid one; "
            "`cbir token create --scope admin` makes one"
        )
    log = open_audit(settings)
    if log:
        log.close()


def _has_valid_token(settings: Settings) -> bool:
    return any(token.state == "valid" for token in Tokens(settings.state_folder).all().values())


def _check_reachable(settings: Settings) -> None:
    why = _why(settings)
    if settings.require_tokens is False:
        raise InvalidInput(f"{why} require_tokens cannot be false; take that setting out")
    if not settings.tls_certificate and not settings.trusted_proxies:
        raise InvalidInput(
            f"{why} tokens and images must be encrypted: set tls_certificate and tls_key, or trusted_proxies "
            "to the address of the proxy that does it"
        )
    if settings.host in ANY_ADDRESS and not settings.allowed_hosts:
        raise InvalidInput(f"{why} allowed_hosts must say which names the service is asked under")


def _why(settings: Settings) -> str:
    if is_loopback(settings.host):
        return "with require_tokens, trusted_proxies or allowed_hosts set,"
    return f"--host {settings.host} is not a loopback address, where only this machine asks, so"


def _check_certificate(settings: Settings) -> None:
    if bool(settings.tls_certificate) != bool(settings.tls_key):
        raise InvalidInput("tls_certificate and tls_key go together; one of them is not set")
    if settings.tls_certificate and settings.tls_key:
        for path in (settings.tls_certificate, settings.tls_key):
            if not path.is_file():
                raise InvalidInput(f"{path}, which tls_certificate or tls_key names, is not there")
        try:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            # An empty password, so that a locked key is an error instead of a question to the terminal.
            context.load_cert_chain(settings.tls_certificate, settings.tls_key, password="")
        except (OSError, ValueError) as error:
            reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or "not PEM"
            raise InvalidInput(
                f"tls_certificate {settings.tls_certificate} and tls_key {settings.tls_key} cannot be used: {reason}"
            ) from error
