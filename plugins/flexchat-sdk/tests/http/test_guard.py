"""Which addresses may be reached: written in any way, found in any way, only public ones and those allowed."""

import ipaddress
import re

import pytest
from flexchat.errors import AddressRefusedError
from flexchat_sdk.http.guard import AddressRule, allow_problem, checked_url, domain_problem, fits_domain, is_public
from forbidden_urls import REFUSED_URLS, UNUSABLE_URLS
from hypothesis import example, given
from hypothesis import strategies as st

PUBLIC = ["93.184.216.34", "8.8.8.8", "1.1.1.1", "2606:4700:4700::1111", "64:ff9b::808:808"]


def is_refused(url, rule=None):
    try:
        (rule or AddressRule()).check(checked_url(url))
    except AddressRefusedError:
        return True
    return False


@pytest.mark.parametrize("url", REFUSED_URLS)
def test_an_address_that_is_not_public_is_refused_however_it_is_written(url):
    """Decimal, octal, hexadecimal, short; inside of IPv6; by names that mean this machine; in other scripts."""
    assert is_refused(url)


@pytest.mark.parametrize("url", UNUSABLE_URLS)
def test_a_url_that_can_be_read_in_two_ways_is_refused(url):
    """User names, backslashes, escapes and control characters in the host, other schemes."""
    with pytest.raises(AddressRefusedError) as caught:
        checked_url(url)

    assert not caught.value.may_have_arrived
    assert not caught.value.retryable


@pytest.mark.parametrize("host", PUBLIC)
def test_public_addresses_may_be_reached(host):
    """Also behind NAT64, if what is behind it is public."""
    assert AddressRule().permits(host, 443)
    assert not is_refused(f"https://[{host}]/" if ":" in host else f"https://{host}/")


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("HTTP://Example.COM", "http://example.com/"),
        ("https://example.com:443/a?b#c", "https://example.com/a?b"),
        ("http://example.com:8080/%7Ea%2Fb", "http://example.com:8080/%7Ea%2Fb"),
        ("http://example.com./x", "http://example.com/x"),
        ("http://bücher.example/ü?ö=1", "http://xn--bcher-kva.example/%C3%BC?%C3%B6=1"),
        ("http://134744072/", "http://8.8.8.8/"),
        ("http://[2606:4700:0:0::1]:81/", "http://[2606:4700::1]:81/"),
        ("http://example.com:/", "http://example.com/"),
    ],
)
def test_a_url_has_one_form(url, text):
    """Host in lower case and ASCII, numbers as addresses, everything else escaped; no fragment."""
    assert checked_url(url).text == text


@pytest.mark.parametrize(
    ("entry", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:9/"),
        ("127.0.0.1:8080", "http://127.0.0.1:8080/"),
        ("127.0.0.0/8", "http://0x7f.1/"),
        ("10.0.0.0/8", "http://[::ffff:10.1.2.3]/"),
        ("[::1]:80", "http://[::1]/"),
        ("::1", "http://[::1]:5/"),
        ("fd00::/8", "http://[fd12::1]/"),
        ("localhost", "http://localhost:3000/"),
        ("LocalHost:3000", "http://localhost:3000/"),
    ],
)
def test_what_the_operator_allows_may_be_reached(entry, url):
    """Addresses, networks, names; with a port or without."""
    assert allow_problem(entry) is None
    assert not is_refused(url, AddressRule((entry,)))


@pytest.mark.parametrize(
    ("entry", "url"),
    [
        ("127.0.0.1:8080", "http://127.0.0.1:8081/"),
        ("127.0.0.1", "http://127.0.0.2/"),
        ("[::1]:80", "http://[::1]:81/"),
        ("localhost:3000", "http://localhost/"),
        ("localhost", "http://127.0.0.1/"),
        ("example.com", "http://10.0.0.1/"),
    ],
)
def test_and_nothing_beside_it(entry, url):
    """Another port, another address; a name does not open the address it leads to under other names."""
    assert is_refused(url, AddressRule((entry,)))


def test_an_allowed_name_may_lead_anywhere():
    """Its operator knows where; others may not."""
    rule = AddressRule(("intranet.example.com",))

    assert rule.permits("10.0.0.7", 80, "intranet.example.com")
    assert not rule.permits("10.0.0.7", 80, "other.example.com")
    assert not rule.permits("10.0.0.7", 80)


@pytest.mark.parametrize(
    "entry", ["", "10.0.0.1/8", "10.0.0.0/33", "300.1.1.1", "1.2.3", "a b", "host:0", "host:99999", "[::1", "http://x/"]
)
def test_a_wrong_entry_is_named_and_allows_nothing(entry):
    """The text says what it is not."""
    assert entry in (allow_problem(entry) or "")
    assert is_refused("http://127.0.0.1/", AddressRule((entry,)))


@pytest.mark.parametrize("url", ["http://127.1:8080/", "http://[::1]/", "http://localhost/"])
def test_the_refusal_says_how_to_allow_it(url):
    """And what it says works."""
    with pytest.raises(AddressRefusedError) as caught:
        AddressRule().check(checked_url(url))
    (entry,) = re.findall(r'allow = \["(.*)"\]', caught.value.hint)

    assert not is_refused(url, AddressRule((entry,)))


def test_domains_limit_everything():
    """The operator's and the request's; also addresses."""
    rule = AddressRule(domains=("api.example.com", "*.example.org"))

    assert not is_refused("https://api.example.com/", rule)
    assert not is_refused("https://a.b.example.org/", rule)
    for host in (
        "example.com",
        "xapi.example.com",
        "example.org",
        "evilexample.org",
        "8.8.8.8",
        "api.example.com.evil",
    ):
        assert is_refused(f"https://{host}/", rule)
    with pytest.raises(AddressRefusedError):
        rule.check(checked_url("https://a.example.org"), ("b.example.org",))


@pytest.mark.parametrize(
    ("domain", "is_right"), [("a.example", True), ("*.a.example", True), ("*", False), ("a*.b", False), ("a/b", False)]
)
def test_domains_are_checked(domain, is_right):
    """Names, and names below one."""
    assert (domain_problem(domain) is None) == is_right
    assert fits_domain("x.a.example", "*.A.example.")


ADDRESSES = st.one_of(
    st.ip_addresses(v=4),
    st.ip_addresses(v=6),
    st.integers(0, 2**32 - 1).map(lambda number: ipaddress.IPv6Address((0xFFFF << 32) + number)),
    st.integers(0, 2**32 - 1).map(lambda number: ipaddress.IPv6Address((0x64FF9B << 96) + number)),
    st.integers(0, 2**32 - 1).map(ipaddress.IPv6Address),
    st.integers(0, 2**112 - 1).map(lambda number: ipaddress.IPv6Address((0x2002 << 112) + number)),
    st.integers(0, 2**96 - 1).map(lambda number: ipaddress.IPv6Address((0x20010000 << 96) + number)),
)


@given(ADDRESSES)
@example(ipaddress.ip_address("224.0.1.1"))
@example(ipaddress.ip_address("::127.0.0.1"))
def test_what_is_not_global_is_never_reached(address):
    """Whatever ipaddress calls not global, or multicast, or what holds such an IPv4 address."""
    inner = [address]
    if address.version == 6:
        inner += [each for each in (address.ipv4_mapped, address.sixtofour, *(address.teredo or ())) if each]
        if address in ipaddress.ip_network("64:ff9b::/96"):
            inner.append(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
    reached = AddressRule().permits(str(address), 80)

    assert reached == is_public(address)
    assert not reached or all(each.is_global and not each.is_multicast for each in inner)


@given(st.ip_addresses(v=4), st.sampled_from(["{0}", "0x{0:x}", "0{0:o}"]), st.integers(1, 4))
def test_numbers_are_read_as_resolvers_read_them(address, form, parts):
    """One to four of them, in any base: the same address as written usually."""
    number = int(address)
    first = [(number >> 8 * (3 - place)) & 255 for place in range(parts - 1)]
    last = number & (256 ** (5 - parts) - 1)

    host = ".".join(form.format(each) for each in (*first, last))

    assert checked_url(f"http://{host}/").address == address


@given(st.text(max_size=30))
def test_any_text_is_a_url_with_one_reading_or_refused(text):
    """And reading the form again changes nothing."""
    for url in (text, f"http://{text}", f"http://example.com/{text}"):
        try:
            found = checked_url(url)
        except AddressRefusedError:
            continue
        assert checked_url(found.text) == found
        assert found.text.isascii()
