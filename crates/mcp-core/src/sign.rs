//! Signatures for state that the client stores: it can read the state, but not change it.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac_sha256::HMAC;

/// Signs state and verifies it when it comes back.
///
/// Servers that share a key accept each other's state: several gateways, or a restarted server.
#[derive(Clone)]
pub struct Signer {
    key: [u8; 32],
}

/// Bytes of a signature.
const MAC_LEN: usize = 16;

impl Signer {
    /// A signer with this key, which must be as secret as a password.
    pub fn new(key: [u8; 32]) -> Self {
        Self { key }
    }

    /// Returns `payload` with its signature, in visible ASCII. State with one `purpose` is not
    /// accepted for another.
    pub fn seal(&self, purpose: &str, payload: &[u8]) -> String {
        let mut bytes = self.mac(purpose, payload).to_vec();
        bytes.extend_from_slice(payload);
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// Returns the payload of `sealed`, if it was sealed with this key and purpose.
    pub fn open(&self, purpose: &str, sealed: &str) -> Option<Vec<u8>> {
        let bytes = URL_SAFE_NO_PAD.decode(sealed).ok()?;
        let (found, payload) = bytes.split_at_checked(MAC_LEN)?;
        let expected = self.mac(purpose, payload);
        // Compared in constant time: an early exit would show which byte of a guess is wrong.
        let pairs = expected.iter().zip(found);
        let differs = pairs.fold(0, |differs, (a, b)| differs | (a ^ b));
        (differs == 0).then(|| payload.to_vec())
    }

    /// Returns a number for `payload` that tells nothing about it to those without the key.
    pub fn number(&self, purpose: &str, payload: &[u8]) -> u64 {
        let mac = self.mac(purpose, payload);
        let bytes = mac.iter().take(size_of::<u64>());
        bytes.fold(0, |all, byte| all << 8 | u64::from(*byte))
    }

    fn mac(&self, purpose: &str, payload: &[u8]) -> [u8; MAC_LEN] {
        let mut hmac = HMAC::new(self.key);
        hmac.update(purpose.as_bytes());
        hmac.update([0]);
        hmac.update(payload);
        let mut mac = [0; MAC_LEN];
        mac.copy_from_slice(&hmac.finalize()[..MAC_LEN]);
        mac
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_sealed_state_opens() {
        let signer = Signer::new([7; 32]);
        let sealed = signer.seal("state", b"payload");
        let payload = Some(b"payload".to_vec());
        assert_eq!(signer.open("state", &sealed), payload);
        assert_eq!(signer.open("session", &sealed), None);
        assert_eq!(Signer::new([8; 32]).open("state", &sealed), None);
        for at in 0..sealed.len() {
            let mut forged = sealed.clone().into_bytes();
            forged[at] = if forged[at] == b'A' { b'B' } else { b'A' };
            let forged = String::from_utf8(forged).unwrap();
            assert_ne!(signer.open("state", &forged), payload, "{at}");
        }
        assert_eq!(signer.open("state", ""), None);
        assert_eq!(signer.open("state", "\u{e4}"), None);
    }

    #[test]
    fn numbers_differ_by_key_purpose_and_payload() {
        let number = |key, purpose, payload| Signer::new([key; 32]).number(purpose, payload);
        let one = number(1, "a", b"x");
        assert_eq!(one, number(1, "a", b"x"));
        for other in [
            number(2, "a", b"x"),
            number(1, "b", b"x"),
            number(1, "a", b"y"),
        ] {
            assert_ne!(one, other);
        }
    }
}
