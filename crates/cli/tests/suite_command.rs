//! The other commands, and what all commands share, by the real program: one module a subject.

mod common;

mod accepted;
mod agent_restrict;
mod batch;
mod bounds;
mod coverage;
mod differential;
mod doctor;
mod documents;
mod facts_service;
mod generated;
mod offline;
mod operator_links;
mod output;
mod recipes;
mod settings;
#[cfg(feature = "labs")]
mod storage;
mod travel;
mod usage;
mod users;
mod verify;
mod verify_store;
mod versions;
mod watch;
mod wrappers;
