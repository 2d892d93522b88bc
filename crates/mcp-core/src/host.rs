//! Hosts, as they stand in URLs and in the headers `Host` and `Origin`.

use core::net::IpAddr;

/// Returns true for this machine: `localhost` or a loopback address, which of IPv6 may be in brackets. No other name is
/// trusted, since its address is not known here.
pub fn is_loopback(host: &str) -> bool {
    // The usual spellings first: parsing an address is the most expensive part of this check.
    if matches!(host, "localhost" | "127.0.0.1") || host.eq_ignore_ascii_case("localhost") {
        return true;
    }
    let v6 = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'));
    let address = v6.unwrap_or(host).parse();
    address.is_ok_and(|address: IpAddr| address.to_canonical().is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_is_loopback() {
        for (host, expected) in [
            ("LOCALHOST", true),
            ("127.8.0.1", true),
            ("::1", true),
            ("[::1]", true),
            ("[::ffff:127.0.0.1]", true),
            ("", false),
            ("192.168.0.1", false),
            ("127.evil.com", false),
            ("127.0.0.1.example.org", false),
            ("localhost.example.org", false),
        ] {
            assert_eq!(is_loopback(host), expected, "{host}");
        }
    }
}
