//! The fields of the last requests, encoded.

use mcp_core::trace::{McpRequest, SpanError};

use crate::attributes::RequestFields;

/// Number of places. A server has few tools, and most calls are of even fewer.
const PLACES: usize = 256;

/// The fields of requests that may come again, each at a place that follows from its texts: a further request of the
/// same place replaces it.
#[derive(Default)]
pub(crate) struct KnownRequests(Vec<Option<KnownRequest>>);

/// A request and its fields.
struct KnownRequest {
    /// Without its item.
    request: McpRequest<'static>,
    item: Option<Box<str>>,
    error: Option<SpanError>,
    fields: RequestFields,
}

impl KnownRequests {
    /// The fields of a request.
    pub(crate) fn fields(
        &mut self,
        request: &McpRequest<'_>,
        error: Option<SpanError>,
    ) -> &RequestFields {
        if self.0.is_empty() {
            self.0.resize_with(PLACES, || None);
        }
        let place = &mut self.0[place(request)];
        if place
            .as_ref()
            .is_some_and(|known| !known.is(request, error))
        {
            *place = None;
        }
        let known = place.get_or_insert_with(|| KnownRequest {
            item: request.item.map(Box::from),
            request: McpRequest {
                item: None,
                ..*request
            },
            error,
            fields: RequestFields::new(request, error),
        });
        &known.fields
    }
}

impl KnownRequest {
    /// True if the fields are those of this request.
    fn is(&self, request: &McpRequest<'_>, error: Option<SpanError>) -> bool {
        let known = &self.request;
        self.item.as_deref() == request.item
            && known.method == request.method
            && known.revision == request.revision
            && known.is_pipe == request.is_pipe
            && self.error == error
    }
}

/// The place of a request. A hash of all texts takes four times as long as this.
fn place(request: &McpRequest<'_>) -> usize {
    let method = request.method.map_or(0, str::len);
    let item = request.item.unwrap_or_default().bytes();
    item.fold(method, |place, byte| {
        place.wrapping_mul(31).wrapping_add(byte.into())
    }) % PLACES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_those_of_the_request_at_any_place() {
        let mut known = KnownRequests::default();
        let names: Vec<String> = (0..2 * PLACES).map(|n| format!("tool{n}")).collect();
        let errors = [None, Some(SpanError::Tool), Some(SpanError::Code(-32_602))];
        let requests = names.iter().flat_map(|name| {
            errors.into_iter().flat_map(move |error| {
                let methods = ["tools/call", "prompts/get"].into_iter();
                methods.flat_map(move |method| {
                    [false, true].map(|is_pipe| {
                        let request = McpRequest {
                            method: Some(method),
                            item: Some(name),
                            is_pipe,
                            ..McpRequest::default()
                        };
                        (request, error)
                    })
                })
            })
        });
        for (request, error) in requests {
            for _ in 0..2 {
                let found = known.fields(&request, error).clone();
                assert_eq!(found, RequestFields::new(&request, error));
            }
        }
    }
}
