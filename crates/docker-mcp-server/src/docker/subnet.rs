//! The subnets of new networks: a bridge takes its range out of the routes of the engine's host.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use mcp_core::tool::ToolError;

use super::Docker;
use crate::policy::forbidden;

/// The ranges of private networks.
const PRIVATE: [&str; 4] = ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7"];

/// A range of addresses, as `172.30.0.0/16`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Subnet {
    /// Of the first address; one of version 4 is in the highest bits.
    bits: u128,
    length: u32,
    is_v4: bool,
}

impl Docker {
    /// Errors when a new network must not have this subnet: it is no private range, or the host of the engine
    /// routes it elsewhere, which is known if the engine is on this machine. The engine itself refuses the
    /// ranges of its other networks.
    pub(crate) fn permit_subnet(&self, text: &str) -> Result<(), ToolError> {
        let Some(subnet) = Subnet::parse(text) else {
            let text = "A subnet is an address and a length: `172.30.0.0/16`.";
            return Err(ToolError::invalid_argument(text));
        };
        if self.policy.is_privileged() {
            return Ok(());
        }
        let mut private = PRIVATE.iter().filter_map(|range| Subnet::parse(range));
        if !private.any(|range| range.length <= subnet.length && range.overlaps(subnet)) {
            return Err(forbidden(format!(
                "This server does not create networks with the subnet {text}: the host of the engine \
                 would not reach these addresses any more. Use a part of 10.0.0.0/8, 172.16.0.0/12, \
                 192.168.0.0/16 or fc00::/7, or leave the subnet out."
            )));
        }
        let routes = match self.engine.is_beside_us() {
            true => host_routes(),
            false => Vec::new(),
        };
        if routes.into_iter().any(|route| route.overlaps(subnet)) {
            return Err(forbidden(format!(
                "This server does not create networks with the subnet {text}: it holds addresses that \
                 the host of the engine uses or has a route to. Use another one, or leave it out."
            )));
        }
        Ok(())
    }
}

/// The routes of this machine but the default one, which some VPNs write as two halves; none where the system
/// does not tell them.
fn host_routes() -> Vec<Subnet> {
    let read = |name| std::fs::read_to_string(format!("/proc/net/{name}")).unwrap_or_default();
    let (v4, v6) = (read("route"), read("ipv6_route"));
    let v4 = v4.lines().skip(1).filter_map(Subnet::of_route);
    let v6 = v6.lines().filter_map(Subnet::of_route_v6);
    v4.chain(v6).filter(|route| route.length > 1).collect()
}

impl Subnet {
    fn new(address: IpAddr, length: u32) -> Option<Self> {
        let (bits, is_v4) = match address {
            IpAddr::V4(address) => (u128::from(u32::from(address)) << 96, true),
            IpAddr::V6(address) => (u128::from(address), false),
        };
        let longest = if is_v4 { 32 } else { 128 };
        (length <= longest).then_some(Self {
            bits,
            length,
            is_v4,
        })
    }

    fn parse(text: &str) -> Option<Self> {
        let (address, length) = text.split_once('/')?;
        // Go, in which the engine is written, reads neither signs nor leading zeros.
        let is_number = length.bytes().all(|byte| byte.is_ascii_digit());
        let length = length.parse().ok().filter(|_| is_number)?;
        Self::new(address.parse().ok()?, length)
    }

    /// A line of `/proc/net/route`: its address and mask are numbers in the order of the machine's bytes.
    fn of_route(line: &str) -> Option<Self> {
        let words: Vec<_> = line.split_whitespace().collect();
        let number = |at: usize| {
            let number = u32::from_str_radix(words.get(at)?, 16).ok()?;
            Some(Ipv4Addr::from(number.to_ne_bytes()))
        };
        let mask = u32::from(number(7)?);
        Self::new(number(1)?.into(), mask.leading_ones())
    }

    /// A line of `/proc/net/ipv6_route`.
    fn of_route_v6(line: &str) -> Option<Self> {
        let mut words = line.split_whitespace();
        let address = u128::from_str_radix(words.next()?, 16).ok()?;
        let length = u32::from_str_radix(words.next()?, 16).ok()?;
        Self::new(Ipv6Addr::from(address).into(), length)
    }

    fn overlaps(self, other: Self) -> bool {
        let common = self.length.min(other.length);
        let first = |subnet: Self| subnet.bits.checked_shr(128 - common).unwrap_or(0);
        self.is_v4 == other.is_v4 && first(self) == first(other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_overlap_by_their_common_bits() {
        for (a, b, expected) in [
            ("10.0.0.0/8", "10.77.0.0/24", true),
            ("10.77.0.9/24", "10.77.0.0/24", true),
            ("10.77.1.0/24", "10.77.0.0/24", false),
            ("172.16.0.0/12", "172.31.255.0/24", true),
            ("172.16.0.0/12", "172.32.0.0/24", false),
            ("0.0.0.0/0", "10.0.0.0/8", true),
            ("fc00::/7", "fd00:1::/64", true),
            ("fc00::/7", "fe80::/64", false),
            ("::/0", "10.0.0.0/8", false),
            ("::/0", "fd00::/8", true),
            ("192.168.0.1/32", "192.168.0.1/32", true),
            ("192.168.0.1/32", "192.168.0.2/32", false),
        ] {
            let [a, b] = [a, b].map(|text| Subnet::parse(text).unwrap());
            assert_eq!(
                (a.overlaps(b), b.overlaps(a)),
                (expected, expected),
                "{a:?} {b:?}"
            );
        }
        for text in [
            "",
            "10.0.0.0",
            "10.0.0.0/33",
            "10.0.0.0/+8",
            "10.0.0/8",
            "fd00::/129",
            "x/8",
            "010.0.0.0/8",
            "10.0.0.0/8 ",
        ] {
            assert_eq!(Subnet::parse(text), None, "{text}");
        }
    }

    #[cfg(target_endian = "little")]
    #[test]
    fn routes_of_the_kernel_are_read() {
        let line = "eth0\t00004D0A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0";
        assert_eq!(Subnet::of_route(line), Subnet::parse("10.77.0.0/24"));
        let line = "eth0\t00000000\t0101A8C0\t0003\t0\t0\t0\t00000000\t0\t0\t0";
        assert_eq!(Subnet::of_route(line), Subnet::parse("0.0.0.0/0"));
        let line =
            "fd000000000000000000000000000000 40 00000000000000000000000000000000 00 0 0 0 0 eth0";
        assert_eq!(Subnet::of_route_v6(line), Subnet::parse("fd00::/64"));
        for line in ["", "eth0", "eth0 x y"] {
            assert_eq!(
                (Subnet::of_route(line), Subnet::of_route_v6(line)),
                (None, None)
            );
        }
    }
}
