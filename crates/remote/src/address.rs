//! URLs of remote systems, and the kinds of systems.

use std::sync::Arc;

#[cfg(feature = "labs")]
use crate::labs::{moosefs, rados, seaweed};
use crate::system::StorageSystem;
use crate::{Environment, RemoteError, azure, gcs, hdfs, s3};

/// A kind of remote system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SystemKind {
    /// `s3://BUCKET/PATH`.
    S3,
    /// `hdfs://NAMENODE:PORT/PATH`.
    Hdfs,
    /// `azure://CONTAINER/PATH`.
    Azure,
    /// `gs://BUCKET/PATH`.
    Gcs,
    /// `seaweedfs://FILER:PORT/PATH`.
    Seaweed,
    /// `moosefs:///MOUNT/PATH`, a mount on this machine.
    MooseFs,
    /// `rados://POOL/PATH`.
    Rados,
}

/// The kind of system for a URL scheme: `s3` of `s3://bucket`.
#[must_use]
pub fn kind_of(scheme: &[u8]) -> Option<SystemKind> {
    match scheme {
        b"s3" => Some(SystemKind::S3),
        b"hdfs" | b"webhdfs" => Some(SystemKind::Hdfs),
        b"azure" | b"az" => Some(SystemKind::Azure),
        b"gs" | b"gcs" => Some(SystemKind::Gcs),
        b"seaweedfs" | b"weed" => Some(SystemKind::Seaweed),
        b"moosefs" | b"mfs" => Some(SystemKind::MooseFs),
        b"rados" => Some(SystemKind::Rados),
        _ => None,
    }
}

impl SystemKind {
    /// The form of the URLs, for help texts.
    #[must_use]
    pub const fn url_form(self) -> &'static str {
        match self {
            Self::S3 => "s3://BUCKET/PATH",
            Self::Hdfs => "hdfs://NAMENODE:PORT/PATH",
            Self::Azure => "azure://CONTAINER/PATH",
            Self::Gcs => "gs://BUCKET/PATH",
            Self::Seaweed => "seaweedfs://FILER:PORT/PATH",
            Self::MooseFs => "moosefs:///MOUNT/PATH",
            Self::Rados => "rados://POOL/PATH",
        }
    }

    /// True if the URLs have no host: the system is mounted on this machine.
    #[must_use]
    pub const fn is_local_mount(self) -> bool {
        matches!(self, Self::MooseFs)
    }

    /// Makes a client for the system at `SCHEME://HOST`. Sends no request.
    ///
    /// # Errors
    /// [`RemoteError::Address`] for an unknown scheme, a malformed host, or unusable credentials.
    pub(crate) fn open(
        url: &str,
        env: &dyn Environment,
    ) -> Result<Arc<dyn StorageSystem>, RemoteError> {
        let unknown = || RemoteError::Address(format!("{url}: not the URL of a known system"));
        let (scheme, host) = url.split_once("://").ok_or_else(unknown)?;
        Ok(match kind_of(scheme.as_bytes()).ok_or_else(unknown)? {
            Self::S3 => Arc::new(s3::S3Bucket::open(host, env)?),
            Self::Hdfs => Arc::new(hdfs::HdfsCluster::open(host, env)?),
            Self::Azure => Arc::new(azure::AzureContainer::open(host, env)?),
            Self::Gcs => Arc::new(gcs::GcsBucket::open(host, env)?),
            #[cfg(feature = "labs")]
            Self::Seaweed => Arc::new(seaweed::SeaweedFiler::open(host)?),
            #[cfg(feature = "labs")]
            Self::MooseFs => Arc::new(moosefs::MooseFsMounts::open(host)?),
            #[cfg(feature = "labs")]
            Self::Rados => Arc::new(rados::RadosPool::open(host)?),
            #[cfg(not(feature = "labs"))]
            Self::Seaweed | Self::MooseFs | Self::Rados => {
                let build = "cargo build --release -p deltic-cli --features labs";
                return Err(RemoteError::Address(format!(
                    "{url}: this build cannot read {scheme}://; build Deltic with its labs: {build}"
                )));
            }
        })
    }
}
