from __future__ import annotations

from pathlib import Path

import pytest

from scheduler.store.etcd.address import Address, Tls


@pytest.mark.parametrize(
    ("url", "address"),
    [
        pytest.param("http://10.0.0.1:2379", Address(("10.0.0.1:2379",)), id="one member"),
        pytest.param("http://etcd/", Address(("etcd:2379",)), id="etcd's own port where none is said"),
        pytest.param("http://[::1]:4000", Address(("[::1]:4000",)), id="IPv6"),
        pytest.param("http://a:1,b:2,c:3", Address(("a:1", "b:2", "c:3")), id="three members"),
        pytest.param("http://a:1,http://b:2", Address(("a:1", "b:2")), id="a list as etcd writes it"),
        pytest.param("https://a:1", Address(("a:1",), Tls()), id="TLS by the system's authorities"),
        pytest.param(
            "https://a:1,b:2?ca=/x/ca.pem&cert=/x/us.pem&key=/x/us.key",
            Address(("a:1", "b:2"), Tls(Path("/x/ca.pem"), Path("/x/us.pem"), Path("/x/us.key"))),
            id="TLS by files",
        ),
        pytest.param("http://me:a%40b@c:1", Address(("c:1",), user="me", password="a@b"), id="a user"),
    ],
)
def test_a_url_says_where_etcd_is(url: str, address: Address) -> None:
    assert Address.parse(url) == address


@pytest.mark.parametrize(
    ("url", "says"),
    [
        pytest.param("10.0.0.1:2379", "begins with http", id="no scheme"),
        pytest.param("redis://a:1", "begins with http", id="another scheme"),
        pytest.param("http://", "begins with http", id="nothing else"),
        pytest.param("http://a:1,,b:2", "no host:port", id="an empty member"),
        pytest.param("http://a:1/v3", "no host:port", id="a path"),
        pytest.param("http://a:port", "ort", id="no number for a port"),
        pytest.param("https://a:1?cert=/x", "go together", id="a certificate without its key"),
        pytest.param("https://a:1?cacert=/x", "cacert", id="an unknown option"),
        pytest.param("http://a:1?ca=/x", "https", id="an authority for plain text"),
    ],
)
def test_what_is_no_address_is_refused_with_the_reason(url: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Address.parse(url)
