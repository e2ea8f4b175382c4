//! Server-sent events: how things stand, then every change. A reader that lags too far is let go, and counted.

use super::board::{Board, Frame};
use super::problem::Problem;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::sse::{Event, KeepAlive, Sse};
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio_stream::Stream;
use tokio_stream::wrappers::BroadcastStream;
use tokio_stream::wrappers::errors::BroadcastStreamRecvError;

/// Most readers at once.
const READERS_MAX: usize = 64;

/// A reader's place, given back when the stream is dropped.
struct Place(Arc<Board>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.readers.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The stream of one reader.
struct Frames {
    hello: Option<Frame>,
    rest: BroadcastStream<Frame>,
    place: Place,
}

impl Stream for Frames {
    type Item = Result<Event, Infallible>;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Self::Item>> {
        let event = |frame: Frame| Poll::Ready(Some(Ok(written(&frame))));
        if let Some(hello) = self.hello.take() {
            return event(hello);
        }
        match std::pin::Pin::new(&mut self.rest).poll_next(cx) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Some(Ok(frame))) => event(frame),
            // Its browser connects again and begins with how things stand then.
            Poll::Ready(Some(Err(BroadcastStreamRecvError::Lagged(_)))) => {
                self.place.0.slow.fetch_add(1, Ordering::Relaxed);
                Poll::Ready(None)
            }
            Poll::Ready(None) => Poll::Ready(None),
        }
    }
}

fn written(frame: &Frame) -> Event {
    Event::default().event(frame.event).data(frame.data.as_ref())
}

/// `GET /v1/stream`.
pub(super) async fn stream(
    State(board): State<Arc<Board>>,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, Problem> {
    if board.readers.fetch_add(1, Ordering::Relaxed) >= READERS_MAX {
        board.readers.fetch_sub(1, Ordering::Relaxed);
        let detail = format!("{READERS_MAX} readers are connected already; close one of them");
        return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, detail));
    }
    let place = Place(Arc::clone(&board));
    let (hello, receiver) = board.subscribe();
    let frames = Frames { hello: Some(hello), rest: BroadcastStream::new(receiver), place };
    Ok(Sse::new(frames).keep_alive(KeepAlive::new().interval(Duration::from_secs(10))))
}
