#!/bin/bash
# Question 5: which MPS control commands does the daemon take from a candidate's uid? Expects a running daemon and
# CUDA_MPS_PIPE_DIRECTORY; $1 = the folder of the built probes. A client sleeps meanwhile, as the victim.
mkfifo /tmp/probe-serve 2>/dev/null
timeout 60 "$1/hello" serve </tmp/probe-serve >/tmp/probe-serve.out 2>&1 &
exec 9>/tmp/probe-serve
for _ in $(seq 50); do grep -q works /tmp/probe-serve.out && break; sleep 0.1; done
server=$(echo get_server_list | timeout 5 nvidia-cuda-mps-control | head -1)
client=$(echo "get_client_list $server" | timeout 5 nvidia-cuda-mps-control | head -1)
echo "Q5 as root: server $server, clients: $client; $(ls -ld "$CUDA_MPS_PIPE_DIRECTORY" | cut -c1-10)"
ls -l "$CUDA_MPS_PIPE_DIRECTORY" | awk 'NR > 1 {print "  " $1, $3, $NF}'
as_candidate() {
  timeout -k 1 6 setpriv --reuid 60123 --regid 60123 --clear-groups --no-new-privs nvidia-cuda-mps-control
}
for command in get_server_list "get_client_list $server" "get_active_thread_percentage $server" \
  "set_active_thread_percentage $server 50" "set_default_active_thread_percentage 50" \
  "start_server -uid 60123" "terminate_client $server $client" "shutdown_server $server -f" quit; do
  answer=$(echo "$command" | as_candidate 2>&1 | tr '\n' ' ')
  code=$?
  echo next >&9
  sleep 0.5
  alive=$(echo get_server_list | timeout 5 nvidia-cuda-mps-control 2>&1 | tr '\n' ' ')
  share=$(echo "get_active_thread_percentage $server" | timeout 5 nvidia-cuda-mps-control 2>&1 | tr '\n' ' ')
  echo "Q5 uid 60123: $command -> '$answer' ($code) | servers now: $alive share: $share victim: $(tail -1 /tmp/probe-serve.out)"
done
exec 9>&-
wait
rm -f /tmp/probe-serve /tmp/probe-serve.out
