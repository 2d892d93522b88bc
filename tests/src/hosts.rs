//! The commands for hosts: `connect`, and `bridge` of the gateway.

mod bridge;
mod connect;
mod home;
