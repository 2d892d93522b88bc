//! Messages whose replica could not be reached, answered here.

use futures_util::future::BoxFuture;
use http::Response;

use super::super::reply::Reply;
use super::forward::KeptMessage;
use super::post::Post;
use super::{Authenticated, McpEndpoint};

impl McpEndpoint {
    /// Answers a message whose replica could not be reached, as it counts as gone now.
    pub(super) fn answer_again<'a>(
        &'a self,
        kept: &KeptMessage,
        client: &Authenticated,
    ) -> BoxFuture<'a, Response<Reply>> {
        let headers = kept.headers.clone();
        let client = client.again(&headers);
        let (body, permit) = (kept.body.clone(), kept.take_permit());
        let post = Post::new(self, client, headers);
        Box::pin(post.answer_body(body, permit))
    }
}
