//! Client of the Docker Engine, or of Podman's socket in its place.
//!
//! [`Address::find`] finds an engine in the way of the docker CLI; an [`Engine`] sends requests to it.
//! Errors are [`EngineError`], which a program can match, or the same in words ([`Engine::explain`]).
//!
//! ```no_run
//! use docker_engine::{Address, AddressSettings, ContainerName, Engine};
//!
//! # async fn f() -> Result<(), Box<dyn std::error::Error>> {
//! let address = Address::find(&AddressSettings::default())?;
//! let engine = Engine::new(address, std::time::Duration::from_secs(10))?;
//! let web = engine.try_inspect(&ContainerName::new("web")?).await?;
//! println!("{} is {}", web.display_name(), web.state.status);
//! # Ok(())
//! # }
//! ```
//!
//! - [`build`]: the files of a build, and the images that it uses
//! - [`command`]: programs of this machine
//! - [`exec`]: processes in containers
//! - [`log`]: the last lines of a container's log
//! - [`own_options`]: what makes a container once more
//! - [`registry`]: logins of registries
//! - [`stats`]: use of CPU, memory, network and disks
//!
//! A caller's text cannot become another request: a [`Path`] consists of fixed words, checked names
//! ([`Name`]) and encoded values.
//!
//! Pulls, pushes, builds and commands are bollard's typed calls. All other requests are our own, over the
//! same connections. One value that is missing in bollard's types (a state of a newer engine, an event
//! type of Podman, a member that version 1.52 removed) would fail a whole reply: we read only the members
//! that we use, with types that every engine can fill. And bollard buffers the line of a terminal until
//! it ends, which may never happen.

mod address;
mod address_error;
mod api_version;
pub mod build;
pub mod command;
mod connector;
mod container;
mod context;
mod engine;
mod error;
mod events;
pub mod exec;
pub mod exit_code;
mod history;
mod image;
mod local;
pub mod log;
mod name;
mod object;
mod object_kind;
pub mod own_options;
mod path;
pub mod ports;
pub mod registry;
pub mod self_container;
mod ssh;
mod ssh_address;
pub mod stats;
mod tls;

pub use address::{Address, AddressSettings};
pub use address_error::AddressError;
pub use connector::ByteStream;
pub use container::{
    ContainerDetails, ContainerState, ContainerSummary, EndpointSettings, Health, HostConfig,
    MountPoint, PortBinding, PortSummary, is_anonymous,
};
pub use engine::{Engine, within};
pub use error::{ConnectProblem, EngineError};
pub use events::{Event, EventStream, SHOWN_DETAILS};
pub use history::History;
pub use image::{BuildLine, BuildRequest, BuildStream, TransferLine, TransferStream};
pub use local::LocalFacts;
pub use name::{ContainerName, ImageName, InvalidName, Name, NameSyntax, ObjectName};
pub use object::{ImageDetails, ImageSummary, Network, Volume};
pub use object_kind::ObjectKind;
pub use path::Path;

/// Types of the Docker Engine API that are used whole: those of new containers.
pub mod api {
    pub use bollard::models::{
        ContainerCreateBody, HostConfig, Mount, MountType, PortBinding, PortMap,
    };
}
