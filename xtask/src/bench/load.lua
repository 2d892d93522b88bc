-- The load of `cargo xtask nightly bench`, for wrk: posts the first argument after the address, and prints the counts as JSON.

function init(args)
  wrk.method = "POST"
  wrk.body = args[1]
end

function done(summary)
  local errors = summary.errors
  local failed = errors.connect + errors.read + errors.write + errors.status + errors.timeout
  io.write(string.format('{"answers": %d, "micros": %d, "failed": %d}\n', summary.requests, summary.duration, failed))
end
