//! The fields around the content of a request: `ExportTraceServiceRequest` and `ExportMetricsServiceRequest` have the
//! same.

use bytes::Bytes;

use crate::protobuf::Writer;

/// The name of the instrumentation scope.
const SCOPE: &str = "mcp-servers";
/// Limit of the number of a field and its length, in bytes.
const MAX_START: usize = 6;

/// The fields in front of the content: the resource and the scope, encoded.
pub(crate) struct Envelope {
    resource: Vec<u8>,
    scope: Vec<u8>,
}

impl Envelope {
    /// Creates that of a process with these attributes.
    pub(crate) fn new(attributes: &[(String, String)]) -> Self {
        let mut envelope = Self {
            resource: Vec::new(),
            scope: Vec::new(),
        };
        Writer(&mut envelope.resource).message(1, |resource| {
            for (key, value) in attributes {
                resource.attribute(1, key, value);
            }
        });
        Writer(&mut envelope.scope).message(1, |scope| {
            scope.bytes(1, SCOPE.as_bytes());
            scope.bytes(2, env!("CARGO_PKG_VERSION").as_bytes());
        });
        envelope
    }

    /// The bytes with which a content begins, so that it need not be copied: a copy of all spans was half of the
    /// exporter's work.
    pub(crate) fn room(&self) -> usize {
        2 * MAX_START + self.resource.len() + self.scope.len()
    }

    /// Makes a request of a content, which begins with the room.
    pub(crate) fn request(&self, mut content: Vec<u8>) -> Bytes {
        let room = self.room();
        let scoped = self.scope.len() + content.len() - room;
        let mut fields = Vec::with_capacity(room);
        let mut writer = Writer(&mut fields);
        writer.0.extend_from_slice(&self.resource);
        writer.start(2, scoped);
        let mut start = Vec::with_capacity(room);
        Writer(&mut start).start(1, fields.len() + scoped);
        start.extend(fields);
        start.extend_from_slice(&self.scope);
        let unused = room - start.len();
        content[unused..room].copy_from_slice(&start);
        Bytes::from(content).slice(unused..)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protobuf::{Fields, Value};

    #[test]
    fn content_of_any_length_is_in_its_scope() {
        let envelope = Envelope::new(&[("service.name".to_owned(), "x".repeat(300))]);
        for len in [0, 1, 200, 100_000] {
            let mut content = vec![0; envelope.room()];
            let mut expected = Vec::new();
            Writer(&mut expected).bytes(2, &vec![7; len]);
            content.extend_from_slice(&expected);
            let request = envelope.request(content);
            let inner = |bytes: &[u8], field| {
                let found = Fields(bytes).find_map(|(number, value)| match value {
                    Value::Bytes(bytes) if number == field => Some(bytes.to_vec()),
                    _ => None,
                });
                found.unwrap()
            };
            let scoped = inner(&inner(&request, 1), 2);
            assert_eq!(inner(&inner(&scoped, 1), 1), SCOPE.as_bytes());
            assert!(scoped.ends_with(&expected));
            assert_eq!(inner(&scoped, 2).len(), len);
        }
    }
}
