//! Which backends there are, and how the gateway treats them.

mod filter;
mod key;

pub use self::filter::Filter;
pub use self::key::BackendKey;
