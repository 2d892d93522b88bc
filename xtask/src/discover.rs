//! Where the service behind a server comes from.

use std::ffi::OsString;
use std::path::Path;

use crate::layout::Layout;
use crate::services::{Place, Purpose, Service, docker, n8n, openhands};

/// The origin of a service.
#[derive(Debug)]
pub(crate) enum Source {
    /// Named in the environment; the server reads that itself.
    Configured(String),
    /// Answering at its default address.
    Found(String),
    /// To be started by us.
    Local(Place),
    /// Nowhere, with what to do about it.
    Missing(String),
}

impl Source {
    /// Looks in the environment, then at the default address, then at what can be started.
    pub(crate) fn find(layout: &Layout, service: Service, local: bool) -> Self {
        if let Some(address) = configured(service) {
            return Self::Configured(address);
        }
        // Before looking around: what a killed run left at the default address is not the user's.
        let place = if local {
            Some(Place::take(layout, service, Purpose::RunAll))
        } else {
            None
        };
        if let Some(address) = found(service) {
            return Self::Found(address);
        }
        match (service.obstacle(layout), place) {
            (_, None) => Self::Missing(format!(
                "nothing answers at its default address ({}), and --no-local was given",
                default_address(service)
            )),
            (Some(obstacle), _) => Self::Missing(obstacle),
            (None, Some(Err(error))) => Self::Missing(format!("{error:#}")),
            (None, Some(Ok(place))) => Self::Local(place),
        }
    }

    /// What the server has to know to find it: variables to set.
    pub(crate) fn environment(&self, service: Service) -> Vec<(&'static str, OsString)> {
        match (self, service) {
            (Self::Local(place), Service::N8n) => vec![
                ("N8N_URL", place.url().into()),
                ("N8N_API_KEY_FILE", place.file(n8n::API_KEY).into()),
                ("N8N_MCP_TOKEN_FILE", place.file(n8n::MCP_TOKEN).into()),
            ],
            (Self::Local(place), Service::OpenHands) => {
                vec![
                    ("OPENHANDS_URL", place.url().into()),
                    (
                        "OPENHANDS_API_KEY_FILE",
                        place.file(openhands::API_KEY).into(),
                    ),
                ]
            }
            (Self::Local(place), Service::Docker) => {
                vec![("DOCKER_HOST", docker::host(place).into())]
            }
            _ => Vec::new(),
        }
    }

    /// Variables that speak of another service than this one.
    pub(crate) fn misleading(&self) -> &'static [&'static str] {
        match self {
            Self::Local(_) => &["N8N_API_KEY", "N8N_MCP_TOKEN", "OPENHANDS_API_KEY"],
            _ => &[],
        }
    }

    /// The address and the origin, for the table.
    pub(crate) fn shown(&self, service: Service) -> String {
        match self {
            Self::Configured(address) => format!("{address} (as configured)"),
            Self::Found(address) => format!("{address} (found there)"),
            Self::Local(place) if service == Service::Docker => {
                format!("{} (local)", docker::host(place))
            }
            Self::Local(place) => format!("{} (local)", place.url()),
            Self::Missing(_) => "none".to_owned(),
        }
    }

    /// What the user has still to do for it.
    pub(crate) fn advice(&self, service: Service) -> Option<String> {
        let without = |name: &str| var(name).is_none() && var(&format!("{name}_FILE")).is_none();
        match (self, service) {
            (Self::Configured(address) | Self::Found(address), Service::N8n)
                if without("N8N_API_KEY") =>
            {
                Some(format!(
                    "N8N_API_KEY must be set for the n8n at {address}; make a key there under Settings > n8n API, then start again"
                ))
            }
            (Self::Configured(address) | Self::Found(address), Service::OpenHands)
                if without("OPENHANDS_API_KEY") =>
            {
                Some(format!(
                    "OPENHANDS_API_KEY is not set; the OpenHands at {address} is used without a key"
                ))
            }
            (Self::Missing(why), _) => Some(why.clone()),
            _ => None,
        }
    }
}

fn configured(service: Service) -> Option<String> {
    var(match service {
        Service::N8n => "N8N_URL",
        Service::OpenHands => "OPENHANDS_URL",
        Service::Docker => "DOCKER_HOST",
    })
}

fn found(service: Service) -> Option<String> {
    let address = default_address(service);
    let answers = match service {
        Service::N8n => n8n::answers(&address),
        Service::OpenHands => openhands::answers(&address),
        Service::Docker => docker::answers(Path::new(docker::DEFAULT_SOCKET)),
    };
    answers.then_some(address)
}

fn default_address(service: Service) -> String {
    match service {
        Service::N8n => format!("http://127.0.0.1:{}", n8n::DEFAULT_PORT),
        Service::OpenHands => format!("http://127.0.0.1:{}", openhands::DEFAULT_PORT),
        Service::Docker => format!("unix://{}", docker::DEFAULT_SOCKET),
    }
}

fn var(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}
