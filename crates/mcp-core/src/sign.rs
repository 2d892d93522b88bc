//! State that travels through the client: readable, but not writable, by it.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac_sha256::HMAC;

/// Signs what is handed out and checks what comes back.
///
/// Servers that share a key accept each other's state: replicas, and a server after its restart.
#[derive(Clone)]
pub struct Signer {
    key: [u8; 32],
}

/// Bytes of a signature: 128 bits.
const MAC: usize = 16;

impl Signer {
    /// A signer with this key, which must be as secret as a password.
    pub fn new(key: [u8; 32]) -> Self {
        Self { key }
    }

    /// `payload` with its signature, in visible ASCII. `purpose` keeps one kind of state from being
    /// taken for another.
    pub fn seal(&self, purpose: &str, payload: &[u8]) -> String {
        let mut bytes = self.mac(purpose, payload).to_vec();
        bytes.extend_from_slice(payload);
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// The payload of `sealed`, if it was sealed with this key for this purpose.
    pub fn open(&self, purpose: &str, sealed: &str) -> Option<Vec<u8>> {
        let bytes = URL_SAFE_NO_PAD.decode(sealed).ok()?;
        let (found, payload) = bytes.split_at_checked(MAC)?;
        let expected = self.mac(purpose, payload);
        // Compared in constant time: no early exit tells where a guess went wrong.
        let differs = expected
            .iter()
            .zip(found)
            .fold(0, |differs, (a, b)| differs | (a ^ b));
        (differs == 0).then(|| payload.to_vec())
    }

    fn mac(&self, purpose: &str, payload: &[u8]) -> [u8; MAC] {
        let mut hmac = HMAC::new(self.key);
        hmac.update(purpose.as_bytes());
        hmac.update([0]);
        hmac.update(payload);
        let mut mac = [0; MAC];
        mac.copy_from_slice(&hmac.finalize()[..MAC]);
        mac
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_sealed_opens() {
        let signer = Signer::new([7; 32]);
        let sealed = signer.seal("state", b"payload");
        assert_eq!(
            signer.open("state", &sealed).as_deref(),
            Some(&b"payload"[..])
        );
        assert_eq!(signer.open("session", &sealed), None);
        assert_eq!(Signer::new([8; 32]).open("state", &sealed), None);
        for at in 0..sealed.len() {
            let mut forged = sealed.clone().into_bytes();
            forged[at] = if forged[at] == b'A' { b'B' } else { b'A' };
            let forged = String::from_utf8(forged).unwrap();
            assert_ne!(
                signer.open("state", &forged).as_deref(),
                Some(&b"payload"[..]),
                "{at}"
            );
        }
        assert_eq!(signer.open("state", ""), None);
        assert_eq!(signer.open("state", "\u{e4}"), None);
    }
}
