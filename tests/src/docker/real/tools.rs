//! The toolsets beside the default one.

mod bounds;
mod compose_beside;
mod compose_bounds;
mod compose_cli;
mod compose_programs;
mod confirmations;
mod containers;
mod exec;
mod files;
mod host_network;
mod images;
mod kept_work;
mod policy;
mod recreate;
mod registry;
mod system;
