"""Protection against server-side request forgery: the addresses that untrusted URLs may reach.

``checked_url`` rejects URLs that two parsers could read differently. ``AddressRule`` checks hosts before a name is
resolved, and addresses before a socket is created: connections.py calls it for each address it connects to, so that a
name which resolves differently the second time is still refused.

Pure functions: no network, no client.
"""

from __future__ import annotations

import functools
import ipaddress
import re
from collections.abc import Iterable
from urllib.parse import quote, urlsplit

import attrs
from flexchat.errors import AddressRefusedError

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

MAX_URL_CHARS = 8_192
_PORTS = {"http": 80, "https": 443}
_NAME = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?:\.[a-z0-9_-]{1,63})*")
_NUMBER = re.compile(r"0x[0-9a-f]*|[0-9]+")
_HIDDEN = re.compile(r"[\x00-\x20\x7f\\]")
_SUBDOMAINS = re.compile(r"\*(\.[a-z0-9_-]{1,63})+")
# Names of this machine and of the clouds' metadata services, refused by name because a proxy may resolve them.
_NAMES = frozenset({"localhost", "metadata", "metadata.google.internal", "metadata.goog", "instance-data"})
_SUFFIXES = (".localhost", ".metadata.google.internal", ".ec2.internal")
_GLOBAL_V6 = ipaddress.IPv6Network("2000::/3")
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
# Global by their number and yet not the public network: protocol assignments, 6to4's relays and Azure's metadata;
# Teredo and other tunnels, documentation, 6to4. Python's own lists differ between versions.
_REFUSED: tuple[Network, ...] = tuple(
    map(
        ipaddress.ip_network,
        ("192.0.0.0/24", "192.88.99.0/24", "168.63.129.16", "2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20"),
    )
)


@attrs.frozen
class CheckedUrl:
    """A URL with one reading.

    Attributes:
        host: In lower case, ASCII, without brackets and final dot; an IP address in its usual form.
        address: The host as an IP address; None for a name.
        text: The whole URL, percent-encoded, without fragment.
        origin: "https://api.example.com", the port only if it is not the scheme's own.
    """

    scheme: str
    host: str
    port: int
    address: Address | None
    origin: str
    text: str


def checked_url(url: str) -> CheckedUrl:
    """Parse a URL, and refuse one that two parsers could read differently.

    Numeric hosts are parsed as resolvers and browsers do: "0x7f.1", "017700000001" and "2130706433" are 127.0.0.1
    (WHATWG URL, section 3.5). Hosts in other scripts are converted to ASCII (UTS 46).

    Raises:
        AddressRefusedError: It is not an absolute http or https URL, names a user, or can be read in two ways.
    """
    if len(url) > MAX_URL_CHARS:
        raise AddressRefusedError(f"the URL is longer than {MAX_URL_CHARS} characters")
    if _HIDDEN.search(url):
        raise AddressRefusedError("the URL contains a space, a control character or a backslash")
    try:
        parts = urlsplit(url)
        port, authority = parts.port, parts.netloc
    except ValueError as error:
        raise AddressRefusedError(f"the URL cannot be read: {error}") from None
    scheme = parts.scheme.lower()
    if scheme not in _PORTS or not authority:
        raise AddressRefusedError("the URL must begin with http:// or https:// and a host")
    if "@" in authority:
        raise AddressRefusedError("the URL must not contain a user name or a password")
    host, address = _read_host(authority)
    port = port if port is not None else _PORTS[scheme]
    if port == 0:
        raise AddressRefusedError("the URL's port must be 1 to 65535")
    bracketed = f"[{host}]" if ":" in host else host
    origin = f"{scheme}://{bracketed}" + (f":{port}" if port != _PORTS[scheme] else "")
    query = "?" + quote(parts.query, safe="/?%:@!$&'()*+,;=~[]|") if parts.query else ""
    path = quote(parts.path, safe="/%:@!$&'()*+,;=~") or "/"
    return CheckedUrl(scheme=scheme, host=host, port=port, address=address, origin=origin, text=origin + path + query)


@attrs.frozen
class AddressRule:
    """The reachable addresses: public ones, and those that the operator allows.

    Args:
        allowed: Addresses that need not be public: "127.0.0.1:8080", "[::1]:8080", "10.0.0.0/8", and host names such
            as "intranet.example.com" with all their addresses; each with or without a port. An invalid entry allows
            nothing; ``allow_problem`` describes its fault.
        domains: The only reachable hosts: "api.example.com", "*.example.com"; None for any.
    """

    allowed: tuple[str, ...] = ()
    domains: tuple[str, ...] | None = None
    _networks: tuple[tuple[Network, int | None], ...] = attrs.field(init=False, eq=False, repr=False)
    _hosts: frozenset[tuple[str, int | None]] = attrs.field(init=False, eq=False, repr=False)

    def __attrs_post_init__(self) -> None:
        entries = [read for read in map(_read_entry, self.allowed) if not isinstance(read, str)]
        networks = tuple((what, port) for what, port in entries if not isinstance(what, str))
        object.__setattr__(self, "_networks", networks)
        object.__setattr__(self, "_hosts", frozenset((what, port) for what, port in entries if isinstance(what, str)))

    def check(self, url: CheckedUrl, domains: Iterable[str] | None = None) -> None:
        """Check a URL before its name is resolved.

        Args:
            domains: A further limit, as ``self.domains``.

        Raises:
            AddressRefusedError: The host is not permitted, regardless of its addresses.
        """
        for limit in (self.domains, domains):
            if limit is not None and not any(fits_domain(url.host, domain) for domain in limit):
                text = f"{url.host} is not among the domains that may be reached"
                raise AddressRefusedError(text, hint=f"those are: {', '.join(limit)}")
        if url.address is not None:
            if not self.permits(str(url.address), url.port):
                raise refused(url.host, url.port)
        elif (url.host in _NAMES or url.host.endswith(_SUFFIXES)) and not self.names_host(url.host, url.port):
            raise refused(url.host, url.port)

    def names_host(self, host: str, port: int) -> bool:
        """Return whether the operator allows a host by its name."""
        return (host, None) in self._hosts or (host, port) in self._hosts

    def permits(self, address: str, port: int, host: str = "") -> bool:
        """Return whether a connection to a resolved address is permitted.

        Args:
            address: In the system's notation: "93.184.216.34", "fe80::1%eth0".
            host: The name that was resolved, in lower case.
        """
        try:
            ip = ipaddress.ip_address(address)
        except ValueError:
            return False  # refuse what cannot be parsed
        if host and self.names_host(host, port):
            return True
        return self._is_allowed(ip, port) or is_public(ip)

    def _is_allowed(self, ip: Address, port: int) -> bool:
        # ::ffff:10.0.0.1 connects to 10.0.0.1, so the operator's entry for that address applies.
        ip = (ip.ipv4_mapped if isinstance(ip, ipaddress.IPv6Address) else None) or ip
        return any(
            network.version == ip.version and ip in network and allowed_port in (None, port)
            for network, allowed_port in self._networks
        )


def is_public(ip: Address) -> bool:
    """Return whether an address is one of the public network's hosts: globally routable unicast.

    IPv4 inside of IPv6 (mapped, compatible, 6to4, Teredo) is not, except behind NAT64's well-known prefix (RFC 6052)
    if the IPv4 address itself is public.
    """
    if not ip.is_global or ip.is_multicast or (ip.is_reserved and ip not in _NAT64):
        return False
    if any(network.version == ip.version and ip in network for network in _REFUSED):
        return False
    if not isinstance(ip, ipaddress.IPv6Address):
        return True
    if ip in _NAT64:
        return is_public(ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF))
    return ip in _GLOBAL_V6 and not ip.scope_id


def refused(host: str, port: int) -> AddressRefusedError:
    """Create the error for a host outside the public network; its hint is the setting that allows it."""
    place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return AddressRefusedError(
        f"{place} may not be reached: it does not lead to the public network",
        hint=f'the operator can allow it in the configuration: [network] allow = ["{place}"]',
    )


def fits_domain(host: str, domain: str) -> bool:
    """Return whether a host is a domain ("api.example.com") or below it ("*.example.com")."""
    domain = domain.lower().rstrip(".")
    return host.endswith(domain[1:]) if domain.startswith("*.") else host == domain


def allow_problem(entry: str) -> str | None:
    """Validate an entry of ``allow``; return the problem, or None."""
    read = _read_entry(entry)
    return read if isinstance(read, str) else None


def domain_problem(domain: str) -> str | None:
    """Validate an entry of ``domains``; return the problem, or None."""
    name = domain.lower().rstrip(".")
    if _NAME.fullmatch(name) or _SUBDOMAINS.fullmatch(name):
        return None
    return f"'{domain}' is not a host name such as api.example.com or *.example.com"


def _read_host(netloc: str) -> tuple[str, Address | None]:
    if netloc.startswith("["):
        literal, _, rest = netloc[1:].partition("]")
        if rest and not re.fullmatch(r":[0-9]*", rest, re.ASCII):
            raise AddressRefusedError("the URL's host cannot be read")
        try:
            inside = ipaddress.IPv6Address(literal)
        except ValueError:
            raise AddressRefusedError("the URL's host is not an IPv6 address") from None
        if inside.scope_id is not None:
            raise AddressRefusedError("the URL's host names a network interface")
        return str(inside), inside
    host = netloc.rpartition(":")[0] if re.search(r":[0-9]*$", netloc, re.ASCII) else netloc
    host = (host if host.isascii() else _as_ascii(host)).lower().removesuffix(".")
    numbers = host.split(".")
    if _NUMBER.fullmatch(numbers[-1]):
        address = _from_numbers(numbers)
        return str(address), address
    if len(host) > 253 or not _NAME.fullmatch(host):
        raise AddressRefusedError("the URL's host is not a host name")
    return host, None


@functools.lru_cache(maxsize=64)
def _as_ascii(host: str) -> str:
    import idna  # comes with httpx; only for names in other scripts

    try:
        return idna.encode(host, uts46=True).decode("ascii")
    except (idna.IDNAError, UnicodeError):
        raise AddressRefusedError("the URL's host is not a host name") from None


def _from_numbers(numbers: list[str]) -> ipaddress.IPv4Address:
    """Parse one to four numbers, decimal, octal (0…) or hexadecimal (0x…); the last one fills the remaining bytes."""
    values = []
    for number in numbers:
        if not _NUMBER.fullmatch(number) or len(number) > 40:
            raise AddressRefusedError("the URL's host is not an IPv4 address")
        base = 16 if number.startswith("0x") else 8 if number.startswith("0") else 10
        try:
            values.append(int(number.removeprefix("0x") or "0", base))
        except ValueError:
            raise AddressRefusedError("the URL's host is not an IPv4 address") from None
    *first, last = values
    if len(values) > 4 or any(value > 255 for value in first) or last >= 256 ** (5 - len(values)):
        raise AddressRefusedError("the URL's host is not an IPv4 address")
    return ipaddress.IPv4Address(last + sum(value << 8 * (3 - place) for place, value in enumerate(first)))


def _read_entry(entry: str) -> tuple[str | Network, int | None] | str:
    """Parse an entry into its host or network and its port; return the problem as text if it is invalid."""
    text = entry.strip().lower()
    try:
        return ipaddress.ip_network(text), None
    except ValueError:
        if "/" in text:
            return f"'{entry}' is not a network such as 10.0.0.0/8" + (
                "; write the host alone" if "://" in text else ""
            )
    match = re.fullmatch(r"(?:\[([^]]+)]|([^:]+))(?::([0-9]{1,5}))?", text, re.ASCII)
    wrong = f"'{entry}' is not an address, a network or a host name, with a port or without"
    if match is None or not 0 < int(match[3] or 1) < 65_536:
        return wrong
    port = int(match[3]) if match[3] else None
    name = match[1] or match[2]
    try:
        return ipaddress.ip_network(name), port
    except ValueError:
        name = name.removesuffix(".")
        return (name, port) if match[2] and _NAME.fullmatch(name) and not name[-1].isdigit() else wrong
