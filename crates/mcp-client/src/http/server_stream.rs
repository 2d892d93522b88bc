//! The GET stream of the legacy era, for messages of the server outside of any request.

use super::exchange::Exchange;
use super::{Http, is_event_stream};
use crate::Error;

impl Http {
    /// Opens the stream. The returned future handles its messages until the server ends it;
    /// a broken stream is resumed if it named its last event.
    pub(crate) async fn open_server_stream(
        &self,
    ) -> Result<impl Future<Output = Result<(), Error>> + Send + 'static, Error> {
        let session = self.0.session.headers();
        let client = &self.0.client;
        let response = client.open_stream(None, &session).await?;
        if !is_event_stream(response.headers()) {
            return Err(client.protocol_error("its response to GET is not an event stream"));
        }
        let (http, body) = (self.clone(), response.into_body());
        Ok(async move {
            if body.is_at_end() {
                return Ok(());
            }
            // No request has this id, so no message is taken for a response.
            let exchange = Exchange::new(&http, 0, None, true);
            exchange.follow_streams(body).await.map(drop)
        })
    }
}
