//! `deltic serve`, its REST and its clients by the real program: one module a subject.

mod common;

mod look;
mod rest;
mod rest_new_files;
mod serve;
mod serve_acme;
mod serve_bad_input;
mod serve_bases;
mod serve_changes;
mod serve_checks;
mod serve_client;
mod serve_clock;
mod serve_events;
mod serve_folded_names;
mod serve_guests;
mod serve_invitations;
mod serve_journal;
mod serve_limits;
mod serve_link;
mod serve_moved_sources;
mod serve_page;
mod serve_quota;
mod serve_refusals;
mod serve_replacing;
mod serve_search;
mod serve_signals;
mod serve_socket;
mod serve_state;
mod serve_token_quota;
mod serve_updates;
mod serve_uploads;
mod serve_walls;
mod serve_ways;
