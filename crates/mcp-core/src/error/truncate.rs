//! The limit of what an error repeats of a request.

use crate::tool::ArgumentError;

/// Bytes of a request that its error repeats: enough to recognise it.
const MAX_QUOTE: usize = 1000;

/// Truncates text that may come from the peer: a request of megabytes must not be answered with
/// megabytes.
pub(crate) fn truncated(mut text: String) -> String {
    if text.len() > MAX_QUOTE {
        text.truncate(text.floor_char_boundary(MAX_QUOTE));
        text.push('…');
    }
    text
}

/// One line that names the invalid field, unless the reason already does.
pub(crate) fn one_line(error: &ArgumentError) -> String {
    let ArgumentError { field, reason, .. } = error;
    truncated(match field.is_empty() || reason.contains(field) {
        true => reason.clone(),
        false => format!("{field}: {reason}"),
    })
}
