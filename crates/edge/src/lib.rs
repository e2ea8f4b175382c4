//! The limiter a gateway embeds.
