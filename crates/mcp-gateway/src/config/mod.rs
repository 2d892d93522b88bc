//! Which backends there are, and how the gateway treats them.
