//! A form as a browser sends it (`multipart/form-data`).

use reqwest::RequestBuilder;
use reqwest::header::CONTENT_TYPE;

use crate::plan::Part;

/// The request with these fields; `boundary` is in none of them.
pub(super) fn fields_of(
    request: RequestBuilder,
    fields: &[(String, Part)],
    boundary: &str,
) -> RequestBuilder {
    let kind = format!("multipart/form-data; boundary={boundary}");
    request
        .header(CONTENT_TYPE, kind)
        .body(encoded(fields, boundary))
}

fn encoded(fields: &[(String, Part)], boundary: &str) -> Vec<u8> {
    let mut body = Vec::new();
    for (name, part) in fields {
        let head = format!("--{boundary}\r\nContent-Disposition: form-data; name=\"{name}\"");
        body.extend_from_slice(head.as_bytes());
        match part {
            Part::Text(text) => {
                body.extend_from_slice(b"\r\n\r\n");
                body.extend_from_slice(text.as_bytes());
            }
            Part::File(file) => {
                let (name, kind) = (quoted(&file.name), &file.media_type);
                let head = format!("; filename=\"{name}\"\r\nContent-Type: {kind}\r\n\r\n");
                body.extend_from_slice(head.as_bytes());
                body.extend_from_slice(&file.content);
            }
        }
        body.extend_from_slice(b"\r\n");
    }
    body.extend_from_slice(format!("--{boundary}--\r\n").as_bytes());
    body
}

/// As browsers write what would end the name or the header.
fn quoted(name: &str) -> String {
    name.replace('"', "%22")
        .replace('\r', "%0D")
        .replace('\n', "%0A")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::File;

    #[test]
    fn texts_and_files_are_parts() {
        let file = File {
            name: "a\"\r\nb".into(),
            media_type: "text/csv".into(),
            content: vec![0xff],
        };
        let fields = [
            ("field-0".to_owned(), Part::Text("x".into())),
            ("field-1".to_owned(), Part::File(file)),
        ];
        let expected = [
            &b"--B\r\nContent-Disposition: form-data; name=\"field-0\"\r\n\r\nx\r\n"[..],
            b"--B\r\nContent-Disposition: form-data; name=\"field-1\"; filename=\"a%22%0D%0Ab\"\r\n",
            b"Content-Type: text/csv\r\n\r\n\xff\r\n--B--\r\n",
        ];
        assert_eq!(encoded(&fields, "B"), expected.concat());
    }
}
