//! The commands for hosts: `connect`, `doctor`, and of the gateway `bridge`.

mod bridge;
mod connect;
mod doctor;
pub(crate) mod home;
