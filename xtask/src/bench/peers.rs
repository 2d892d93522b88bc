//! Proxies of others, each in front of our server: FastMCP's and mcp-proxy from PyPI, and mcp-proxy from
//! npm, which is another program. Their files are in `tests/bench/peers`.

use std::fs;
use std::net::{Ipv4Addr, TcpStream};
use std::path::PathBuf;

use crate::install::{self, Package};
use crate::instance::free_port;
use crate::test_server::FIXTURE;

use super::server::{Bench, BenchServer, Cpu};

const FILES: &str = "tests/bench/peers";

impl Bench<'_> {
    /// Starts the proxy `name`, which relays to our server over HTTP or as a child.
    pub(super) fn peer(&self, name: &str) -> anyhow::Result<Option<BenchServer>> {
        let port = free_port(0)?;
        let child = self.binary(FIXTURE);
        let child = [&*child, "--stdio", "--log", "error"];
        let (cpu, program, backend) = match name {
            "FastMCP" => {
                let backend = self.fixture(Cpu::Load)?;
                let script = self.layout.root.join(FILES).join("fastmcp_proxy.py");
                let program = self.program(Cpu::Own, self.peers_python()?.join("python"))?;
                let program = program
                    .args([script])
                    .args([backend.url(), "bench-with-a-token".to_owned()]);
                (Cpu::Own, program.args([port.to_string()]), Some(backend))
            }
            "mcp-proxy" => {
                let program = self.program(Cpu::Any, self.peers_python()?.join("mcp-proxy"))?;
                let program = program.words(&format!("--log-level ERROR --port {port} --"));
                (Cpu::Any, program.args(child), None)
            }
            "mcp-proxy-npm" => {
                let script = self.peers_node()?.join("node_modules/.bin/mcp-proxy");
                let program = self.program(Cpu::Any, "node")?.args([script]);
                let program = program.words(&format!("--host 127.0.0.1 --port {port} --"));
                (Cpu::Any, program.args(child), None)
            }
            _ => return Ok(None),
        };
        let mut peer = self.launch(cpu, program, |_| {
            let connected = TcpStream::connect((Ipv4Addr::LOCALHOST, port));
            connected.is_ok().then_some(port)
        })?;
        peer.backend = backend.map(Box::new);
        Ok(Some(peer))
    }

    fn peers_python(&self) -> anyhow::Result<PathBuf> {
        let package = Package::new(self.layout, "bench", "bench-peers-python");
        let requirements =
            fs::read_to_string(self.layout.root.join(FILES).join("requirements.txt"))?;
        install::install_python(&package, &requirements)?;
        Ok(package.dir.join("bin"))
    }

    fn peers_node(&self) -> anyhow::Result<PathBuf> {
        let package = Package::new(self.layout, "bench", "bench-peers-node");
        install::install_node(&package, &self.layout.root.join(FILES), "mcp-proxy")?;
        Ok(package.dir)
    }
}
