//! The signatures of tokens, verified by *ring*, which TLS has in the tree already. The crates that
//! `jsonwebtoken` can use itself are 30 more, or a second copy of BoringSSL.

use jsonwebtoken::crypto::{CryptoProvider, JwtSigner, JwtVerifier, KeyUtils};
use jsonwebtoken::errors::{ErrorKind, Result};
use jsonwebtoken::signature::{Error, Verifier};
use jsonwebtoken::{Algorithm, AlgorithmFamily, DecodingKey, DecodingKeyKind, EncodingKey};
use ring::signature::{self as signatures, RsaPublicKeyComponents, UnparsedPublicKey};

static RING: CryptoProvider = CryptoProvider {
    signer_factory: signer,
    verifier_factory: verifier,
    key_utils: KeyUtils::new_unimplemented(),
};

/// Installs *ring*, unless the program has installed another provider.
pub(super) fn install() {
    // Installed before: nothing to do.
    let _ = RING.install_default();
}

fn signer(_: &Algorithm, _: &EncodingKey) -> Result<Box<dyn JwtSigner>> {
    Err(ErrorKind::InvalidAlgorithm.into())
}

/// The family of the keys for an algorithm; `None` for an algorithm that is not known here.
pub(super) fn family(algorithm: Algorithm) -> Option<AlgorithmFamily> {
    Some(match algorithm {
        Algorithm::RS256
        | Algorithm::RS384
        | Algorithm::RS512
        | Algorithm::PS256
        | Algorithm::PS384
        | Algorithm::PS512 => AlgorithmFamily::Rsa,
        Algorithm::ES256 | Algorithm::ES384 => AlgorithmFamily::Ec,
        Algorithm::EdDSA => AlgorithmFamily::Ed,
        _ => return None,
    })
}

fn verifier(algorithm: &Algorithm, key: &DecodingKey) -> Result<Box<dyn JwtVerifier>> {
    // A public key is never the secret of an HMAC.
    if family(*algorithm) != Some(key.family()) {
        return Err(ErrorKind::InvalidKeyFormat.into());
    }
    Ok(Box::new(RingVerifier(*algorithm, key.clone())))
}

struct RingVerifier(Algorithm, DecodingKey);

impl JwtVerifier for RingVerifier {
    fn algorithm(&self) -> Algorithm {
        self.0
    }
}

impl Verifier<Vec<u8>> for RingVerifier {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> std::result::Result<(), Error> {
        let rsa = match self.0 {
            Algorithm::RS256 => Some(&signatures::RSA_PKCS1_2048_8192_SHA256),
            Algorithm::RS384 => Some(&signatures::RSA_PKCS1_2048_8192_SHA384),
            Algorithm::RS512 => Some(&signatures::RSA_PKCS1_2048_8192_SHA512),
            Algorithm::PS256 => Some(&signatures::RSA_PSS_2048_8192_SHA256),
            Algorithm::PS384 => Some(&signatures::RSA_PSS_2048_8192_SHA384),
            Algorithm::PS512 => Some(&signatures::RSA_PSS_2048_8192_SHA512),
            _ => None,
        };
        let verified = match (rsa, self.1.kind()) {
            (Some(parameters), DecodingKeyKind::RsaModulusExponent { n, e }) => {
                RsaPublicKeyComponents { n, e }.verify(parameters, message, signature)
            }
            (None, DecodingKeyKind::SecretOrDer(key)) => {
                let algorithm: &dyn signatures::VerificationAlgorithm = match self.0 {
                    Algorithm::ES256 => &signatures::ECDSA_P256_SHA256_FIXED,
                    Algorithm::ES384 => &signatures::ECDSA_P384_SHA384_FIXED,
                    Algorithm::EdDSA => &signatures::ED25519,
                    _ => return Err(Error::new()),
                };
                UnparsedPublicKey::new(algorithm, key).verify(message, signature)
            }
            _ => return Err(Error::new()),
        };
        verified.map_err(|_| Error::new())
    }
}
