//! The commands for hosts: `connect`, `doctor`, and of the gateway `bridge`, `import` and `wait`.

mod bridge;
mod connect;
mod doctor;
pub(crate) mod home;
mod import;
mod wait;
