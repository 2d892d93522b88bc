//! Git's protocol over HTTP, version 0 (gitprotocol-http, gitprotocol-pack), as far as one branch needs
//! it.

use std::time::Duration;

use mcp_core::tool::ToolError;
use upstream::http::{BodyStream, Method};

use super::host::{HostedRepository, said};
use super::pkt_line::{FLUSH, Packet, Packets, push_line};

/// The host packs a large repository before it sends the first byte.
const PACK_TIMEOUT: Duration = Duration::from_secs(120);
/// The id of an object that does not exist.
const NO_OBJECT: &str = "0000000000000000000000000000000000000000";
const AGENT: &str = concat!("agent=", env!("CARGO_PKG_NAME"));

/// The two services of a git host.
#[derive(Clone, Copy)]
pub(crate) enum Service {
    /// Gives packs: a fetch.
    UploadPack,
    /// Takes packs: a push.
    ReceivePack,
}

impl Service {
    fn name(self) -> &'static str {
        match self {
            Self::UploadPack => "git-upload-pack",
            Self::ReceivePack => "git-receive-pack",
        }
    }
}

#[derive(Default)]
pub(crate) struct Refs {
    /// Their ids and names.
    refs: Vec<(String, String)>,
    capabilities: String,
}

impl Refs {
    fn parse(body: &[u8], service: Service) -> Option<Self> {
        let mut packets = Packets::default();
        packets.push(body);
        let mut lines = Vec::new();
        while let Some(packet) = packets.next().ok()? {
            if let Packet::Data(data) = packet {
                lines.push(String::from_utf8(data).ok()?);
            }
        }
        let mut lines = lines.iter().map(|line| line.trim_end_matches('\n'));
        if lines.next()? != format!("# service={}", service.name()) || !packets.is_empty() {
            return None;
        }
        let mut found = Self::default();
        for line in lines {
            let (line, capabilities) = line.split_once('\0').unwrap_or((line, ""));
            found.capabilities += capabilities;
            let (id, name) = line.split_once(' ')?;
            let is_id = id.len() == NO_OBJECT.len() && id.chars().all(|c| c.is_ascii_hexdigit());
            match is_id {
                // An empty repository has one line without a reference.
                true if id != NO_OBJECT => found.refs.push((id.to_owned(), name.to_owned())),
                true => {}
                false => return None,
            }
        }
        Some(found)
    }

    fn id(&self, name: &str) -> Option<&str> {
        let mut refs = self.refs.iter();
        let found = refs.find(|(_, known)| known == name);
        found.map(|(id, _)| id.as_str())
    }

    pub(crate) fn branch(&self, name: &str) -> Option<&str> {
        self.id(&format!("refs/heads/{name}"))
    }

    /// The object of a branch or tag.
    pub(crate) fn branch_or_tag(&self, name: &str) -> Option<&str> {
        let tag = || self.id(&format!("refs/tags/{name}"));
        self.branch(name).or_else(tag)
    }

    /// The default branch.
    pub(crate) fn default_branch(&self) -> Option<&str> {
        let mut capabilities = self.capabilities.split(' ');
        let symref = capabilities.find_map(|word| word.strip_prefix("symref=HEAD:refs/heads/"));
        symref.or_else(|| {
            let head = self.id("HEAD")?;
            let mut refs = self.refs.iter().filter(|(id, _)| id == head);
            refs.find_map(|(_, name)| name.strip_prefix("refs/heads/"))
        })
    }

    fn can(&self, capability: &str) -> bool {
        self.capabilities.split(' ').any(|word| word == capability)
    }
}

impl HostedRepository {
    pub(crate) async fn refs(&self, service: Service) -> Result<Refs, ToolError> {
        let request = self.git_request(Method::GET, &["info", "refs"]);
        let response = request.query(&[("service", service.name())]).send().await?;
        Refs::parse(&response.body, service).ok_or_else(|| self.unexpected())
    }

    /// Fetches the object `id` with all that belongs to it, but without its history if the host can
    /// leave it out.
    pub(crate) async fn fetch(&self, refs: &Refs, id: &str) -> Result<PackStream, ToolError> {
        let mut body = Vec::new();
        push_line(
            &mut body,
            &format!("want {id} side-band-64k ofs-delta no-progress {AGENT}\n"),
        );
        if refs.can("shallow") {
            push_line(&mut body, "deepen 1\n");
        }
        body.extend_from_slice(FLUSH);
        push_line(&mut body, "done\n");
        let request = self.service_request(Service::UploadPack, body);
        Ok(PackStream {
            body: request.stream().await?,
            repository: self.clone(),
            packets: Packets::default(),
            shallow: Vec::new(),
            has_ended: false,
        })
    }

    /// Sets the branch to the commit `new`, whose objects are in `pack`. `old` is its present commit;
    /// `None` creates it.
    ///
    /// # Errors
    /// The branch was not changed, unless the host did not answer.
    pub(crate) async fn push(
        &self,
        branch: &str,
        old: Option<&str>,
        new: &str,
        pack: &[u8],
    ) -> Result<(), ToolError> {
        let old = old.unwrap_or(NO_OBJECT);
        let mut body = Vec::new();
        let capabilities = format!("report-status side-band-64k {AGENT}");
        let line = format!("{old} {new} refs/heads/{branch}\0{capabilities}\n");
        push_line(&mut body, &line);
        body.extend_from_slice(FLUSH);
        body.extend_from_slice(pack);
        let response = self.service_request(Service::ReceivePack, body).send();
        let lines = report_lines(&response.await?.body).ok_or_else(|| self.unexpected())?;
        let has = |line: &str| lines.iter().any(|other| other == line);
        if has("unpack ok") && has(&format!("ok refs/heads/{branch}")) {
            return Ok(());
        }
        let said = said(&lines.join(" "));
        Err(ToolError::conflict(format!(
            "The git host did not take the branch {branch}: {said}"
        )))
    }

    fn service_request(&self, service: Service, body: Vec<u8>) -> upstream::http::Request {
        let name = service.name();
        let request = self.git_request(Method::POST, &[name]);
        let request = request.with(|request| {
            let kind = format!("application/x-{name}-request");
            request.header("Content-Type", kind).body(body)
        });
        request.timeout(PACK_TIMEOUT)
    }
}

/// The lines of the report about a push, and the messages of the host's hooks.
fn report_lines(body: &[u8]) -> Option<Vec<String>> {
    let (mut packets, mut report) = (Packets::default(), Packets::default());
    let mut lines = Vec::new();
    packets.push(body);
    while let Some(packet) = packets.next().ok()? {
        match packet {
            Packet::Data(data) => match data.split_first() {
                Some((1, part)) => report.push(part),
                Some((2 | 3, message)) => lines.push(message.to_vec()),
                _ => lines.push(data),
            },
            Packet::Flush => {}
        }
    }
    while let Some(packet) = report.next().ok()? {
        if let Packet::Data(line) = packet {
            lines.push(line);
        }
    }
    let text = |line: Vec<u8>| String::from_utf8_lossy(&line).trim_end().to_owned();
    Some(lines.into_iter().map(text).collect())
}

/// A pack of objects that the host sends.
pub(crate) struct PackStream {
    body: BodyStream,
    repository: HostedRepository,
    packets: Packets,
    /// The commits whose parents are left out. Complete at the end.
    pub(crate) shallow: Vec<String>,
    has_ended: bool,
}

impl PackStream {
    /// The next bytes of the pack; `None` at its end.
    ///
    /// # Errors
    /// The pack is not complete.
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<u8>>, ToolError> {
        loop {
            let packet = self.packets.next();
            match packet.map_err(|_| self.repository.unexpected())? {
                Some(Packet::Data(data)) => match data.split_first() {
                    Some((1, part)) => return Ok(Some(part.to_vec())),
                    // Progress.
                    Some((2, _)) => {}
                    Some((3, reason)) => return Err(failed(reason)),
                    _ => match data.strip_prefix(b"ERR ") {
                        Some(reason) => return Err(failed(reason)),
                        None => {
                            let line = String::from_utf8_lossy(&data);
                            let id = line.trim_end().strip_prefix("shallow ");
                            self.shallow.extend(id.map(str::to_owned));
                        }
                    },
                },
                Some(Packet::Flush) => self.has_ended = true,
                None => match self.body.chunk().await? {
                    Some(chunk) => {
                        self.packets.push(&chunk);
                        self.has_ended = false;
                    }
                    None if self.has_ended && self.packets.is_empty() => return Ok(None),
                    None => return Err(self.repository.unexpected()),
                },
            }
        }
    }
}

fn failed(reason: &[u8]) -> ToolError {
    let said = said(&String::from_utf8_lossy(reason));
    ToolError::upstream(format!("The git host sent no repository: {said}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn advertised(lines: &[&str]) -> Vec<u8> {
        let mut body = Vec::new();
        push_line(&mut body, "# service=git-upload-pack\n");
        body.extend_from_slice(FLUSH);
        lines.iter().for_each(|line| push_line(&mut body, line));
        body.extend_from_slice(FLUSH);
        body
    }

    #[test]
    fn references_and_default_branch_are_read() {
        let (one, two) = ("1".repeat(40), "2".repeat(40));
        let head = format!("{two} HEAD\0shallow symref=HEAD:refs/heads/trunk agent=x\n");
        let refs = [
            head,
            format!("{one} refs/heads/a/b\n"),
            format!("{two} refs/heads/trunk\n"),
            format!("{one} refs/tags/v1\n"),
        ];
        let lines: Vec<&str> = refs.iter().map(String::as_str).collect();
        let refs = Refs::parse(&advertised(&lines), Service::UploadPack).unwrap();
        assert_eq!(refs.default_branch(), Some("trunk"));
        assert_eq!(refs.branch("a/b"), Some(&*one));
        assert_eq!(
            (refs.branch("v1"), refs.branch_or_tag("v1")),
            (None, Some(&*one))
        );
        assert!(refs.can("shallow") && !refs.can("shall"));
        // Hosts before git 1.8.5 name no symbolic references.
        let lines = [&*format!("{two} HEAD\0x\n"), lines[1], lines[2]];
        let refs = Refs::parse(&advertised(&lines), Service::UploadPack).unwrap();
        assert_eq!(refs.default_branch(), Some("trunk"));
    }

    #[test]
    fn empty_repository_has_no_references_and_other_pages_are_none() {
        let empty = format!("{NO_OBJECT} capabilities^{{}}\0shallow\n");
        let refs = Refs::parse(&advertised(&[&empty]), Service::UploadPack).unwrap();
        assert_eq!((refs.refs.len(), refs.default_branch()), (0, None));
        for body in [&b"<!DOCTYPE html>"[..], b"", &advertised(&["id name"])] {
            assert!(Refs::parse(body, Service::UploadPack).is_none());
        }
        assert!(Refs::parse(&advertised(&[]), Service::ReceivePack).is_none());
    }

    #[test]
    fn report_is_read_with_and_without_bands() {
        let mut report = Vec::new();
        push_line(&mut report, "unpack ok\n");
        push_line(&mut report, "ng refs/heads/x hook declined\n");
        let lines = ["unpack ok", "ng refs/heads/x hook declined"];
        assert_eq!(report_lines(&report).unwrap(), lines);
        let mut banded = b"000c\x02why not".to_vec();
        push_line(
            &mut banded,
            &format!("\x01{}", String::from_utf8(report).unwrap()),
        );
        assert_eq!(report_lines(&banded).unwrap()[1..], lines);
    }
}
