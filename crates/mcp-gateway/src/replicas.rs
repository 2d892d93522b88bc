//! Several gateways that serve one endpoint on one PostgreSQL.

#[cfg(test)]
mod decide;
