//! URLs of systems that can be read.

use std::sync::Arc;

use crate::system::System;
use crate::{Env, RemoteError, azure, gcs, hdfs, s3};

/// A kind of system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `s3://BUCKET/PATH`.
    S3,
    /// `hdfs://NAMENODE:PORT/PATH`.
    Hdfs,
    /// `azure://CONTAINER/PATH`.
    Azure,
    /// `gs://BUCKET/PATH`.
    Gcs,
}

/// The kind of system that a scheme stands for: `s3` of `s3://bucket`.
#[must_use]
pub fn kind_of(scheme: &[u8]) -> Option<Kind> {
    match scheme {
        b"s3" => Some(Kind::S3),
        b"hdfs" | b"webhdfs" => Some(Kind::Hdfs),
        b"azure" | b"az" => Some(Kind::Azure),
        b"gs" | b"gcs" => Some(Kind::Gcs),
        _ => None,
    }
}

impl Kind {
    /// The form in which people write it.
    #[must_use]
    pub const fn form(self) -> &'static str {
        match self {
            Self::S3 => "s3://BUCKET/PATH",
            Self::Hdfs => "hdfs://NAMENODE:PORT/PATH",
            Self::Azure => "azure://CONTAINER/PATH",
            Self::Gcs => "gs://BUCKET/PATH",
        }
    }

    /// Reaches the system that `SCHEME://HOST` names; nothing is asked yet.
    pub(crate) fn open(url: &str, env: &dyn Env) -> Result<Arc<dyn System>, RemoteError> {
        let unknown = || RemoteError::Address(format!("{url}: no system that can be read"));
        let (scheme, host) = url.split_once("://").ok_or_else(unknown)?;
        Ok(match kind_of(scheme.as_bytes()).ok_or_else(unknown)? {
            Self::S3 => Arc::new(s3::S3::open(host, env)?),
            Self::Hdfs => Arc::new(hdfs::Hdfs::open(host, env)?),
            Self::Azure => Arc::new(azure::Azure::open(host, env)?),
            Self::Gcs => Arc::new(gcs::Gcs::open(host, env)?),
        })
    }
}
