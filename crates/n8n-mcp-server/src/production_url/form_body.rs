//! Writes forms as browsers do.

use upstream::http::Fault;
use upstream::http::multipart::{Form, Part};

use super::FormValue;

pub(super) fn multipart(fields: &[(String, FormValue)]) -> Result<Form, Fault> {
    // Escapes characters that would end a name or its header, as browsers do; n8n does not read names in
    // the form that reqwest's own escapes have (`name*=utf-8''…`).
    let escape = |name: &str| {
        let name = name.replace('"', "%22");
        name.replace('\r', "%0D").replace('\n', "%0A")
    };
    let form = Form::new().percent_encode_noop();
    fields.iter().try_fold(form, |form, (name, value)| {
        let part = match value {
            FormValue::Text(text) => Part::text(text.clone()),
            FormValue::File(file) => Part::bytes(file.content.clone())
                .file_name(escape(&file.name))
                .mime_str(&file.media_type)?,
        };
        Ok(form.part(escape(name), part))
    })
}

#[cfg(test)]
mod tests {
    use futures_util::StreamExt as _;

    use super::*;
    use crate::production_url::FormFile;

    #[tokio::test]
    async fn names_are_those_of_browsers() {
        let file = FormFile {
            name: "a\"\r\nb".into(),
            media_type: "text/csv".into(),
            content: vec![0xff],
        };
        let fields = [
            ("field-0".to_owned(), FormValue::Text("x".into())),
            ("field-1".to_owned(), FormValue::File(file)),
            ("b ä\"\n".to_owned(), FormValue::Text("y".into())),
        ];
        let body = multipart(&fields).unwrap().into_stream();
        let body: Vec<_> = body.map(Result::unwrap).collect().await;
        let body = String::from_utf8_lossy(&body.concat()).into_owned();
        let expected = "name=\"field-1\"; filename=\"a%22%0D%0Ab\"\r\nContent-Type: text/csv\r\n";
        assert!(body.contains(expected), "{body}");
        assert!(body.contains("name=\"b ä%22%0A\"\r\n"), "{body}");
    }
}
