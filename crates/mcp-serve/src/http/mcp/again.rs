//! Messages whose replica could not be reached, answered here.

use futures_util::future::BoxFuture;
use http::Response;

use super::super::headers::Head;
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
        let facts = Head::read(&headers).facts();
        let client = Authenticated {
            arrived: client.arrived,
            credential: client.credential.clone(),
            address: client.address,
            headers: facts,
            view: client.view.clone(),
            forwarded_body: client.forwarded_body.clone(),
        };
        let (body, permit) = (kept.body.clone(), kept.take_permit());
        let post = Post::new(self, client, headers);
        Box::pin(post.answer_body(body, permit))
    }
}
