// The same transfers without WebSockets.
delete globalThis.WebSocket;
await import("./sync.test.js");
