//! The commands that every server has beside serving. Each is a file of its own: a struct that clap parses,
//! whose documentation is its help, and a function.

mod connect;
mod doctor;
mod token;

use std::sync::Arc;

use clap::{Args, CommandFactory as _};

use crate::subcommand::Subcommand;
use crate::{Product, Service};

impl<S: Service, O: Args + 'static> Product<S, O> {
    /// All commands, in the order of `--help`; then those of this product.
    pub(crate) fn subcommands(&self) -> Vec<Arc<Subcommand<Self>>> {
        // One line each: the name, the struct and the function.
        let shared = [
            Subcommand::new("connect", |connect, product: Self| {
                let server = crate::Command::<O>::command();
                connect::run(&connect, &product.identity.name, &server)
            }),
            Subcommand::new("doctor", doctor::run::<S, O>),
            Subcommand::new("token", |token, product: Self| {
                token::run(token, &product.identity.name)
            }),
        ];
        let own = self.commands.iter().cloned();
        shared.into_iter().map(Arc::new).chain(own).collect()
    }
}
