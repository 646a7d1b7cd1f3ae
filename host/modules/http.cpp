// khost.http: requests to servers that others run (scripts/meta/khost.http.lua). Each works on a thread of its own
// while its task waits; connections are kept for later requests. Redirects are not followed: they would carry the
// caller's credentials to a host that it did not name.
#include <curl/curl.h>

#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "host/host.h"
#include "host/lua/bind.h"
#include "host/lua/task.h"
#include "host/modules/modules.h"
#include "host/modules/workers.h"

namespace khost::modules {
namespace {

using lua::field;
using lua::Resume;
using lua::Tag;

struct HttpRequest {
  std::string url;
  std::string method = "GET";
  std::map<std::string, std::string> headers;
  std::string body;
  double timeout_s = 600;
  double connect_s = 10;
  double idle_s = 0;  // 0: none
  double most_bytes = 64 << 20;
  std::string stop_at;
  std::string into;
};
constexpr auto fields(Tag<HttpRequest>) {
  using R = HttpRequest;
  return std::tuple(field("url", &R::url), field("method", &R::method), field("headers", &R::headers),
                    field("body", &R::body), field("timeout_s", &R::timeout_s), field("connect_s", &R::connect_s),
                    field("idle_s", &R::idle_s), field("most_bytes", &R::most_bytes), field("stop_at", &R::stop_at),
                    field("into", &R::into));
}

struct HttpAnswer {
  int status = 0;
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;
  double seconds = 0;
};
constexpr auto fields(Tag<HttpAnswer>) {
  using A = HttpAnswer;
  return std::tuple(field("status", &A::status), field("headers", &A::headers), field("body", &A::body),
                    field("seconds", &A::seconds));
}

// Handles that are idle, with the connections they keep. Never destroyed: threads may outlive main.
class Multis {
 public:
  CURLM* take() {
    const std::lock_guard lock(mutex_);
    if (idle_.empty()) {
      static const CURLcode once = curl_global_init(CURL_GLOBAL_DEFAULT);
      return once == CURLE_OK ? curl_multi_init() : nullptr;
    }
    CURLM* multi = idle_.back();
    idle_.pop_back();
    return multi;
  }
  void give_back(CURLM* multi) {
    const std::lock_guard lock(mutex_);
    idle_.push_back(multi);
  }

 private:
  std::mutex mutex_;
  std::vector<CURLM*> idle_;
};

Multis& multis() {
  static Multis* const all = new Multis;
  return *all;
}

// What the waiting task and the working thread share.
class Cancel {
 public:
  void ask() {
    const std::lock_guard lock(mutex_);
    asked_ = true;
    if (multi_ != nullptr) {
      curl_multi_wakeup(multi_);
    }
  }
  void watch(CURLM* multi) {
    const std::lock_guard lock(mutex_);
    multi_ = multi;
  }
  bool asked() const { return asked_; }

 private:
  std::mutex mutex_;
  CURLM* multi_ = nullptr;
  std::atomic<bool> asked_{false};
};

constexpr size_t kMostHeaderBytes = 256 << 10;  // of one transfer, with what comes before and behind the body

// A URL as messages name it: without a user's name and password in front of the host, and without its query. Both may
// hold what is secret, and messages reach logs and answers.
std::string shown(const std::string& url) {
  std::string text = url.substr(0, url.find_first_of("?#"));
  const size_t scheme = text.find("://");
  const size_t host = scheme == std::string::npos ? 0 : scheme + 3;
  const size_t at = text.rfind('@', text.find('/', host));
  return at == std::string::npos || at < host ? text : text.erase(host, at + 1 - host);
}

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

struct Transfer {
  const HttpRequest& request;
  HttpAnswer answer;
  bool too_large = false;
  bool stopped = false;
  int status = 0;  // of the answer that is being read
  std::unique_ptr<std::FILE, CloseFile> file;
  double file_bytes = 0;
  std::string file_failure = {};  // why `into` cannot take the body
  size_t header_bytes = 0;

  // The file that takes the body of an answer 200 from its beginning, and of an answer 206 where it ends: when the
  // answer begins elsewhere nothing is written.
  bool open_file() {
    struct stat info = {};
    const bool there = ::stat(request.into.c_str(), &info) == 0;
    const double begin = status == 206 && there ? static_cast<double>(info.st_size) : 0;
    if (status == 206) {
      const std::string& range = answer.headers["content-range"];
      if (range.rfind("bytes " + std::to_string(static_cast<int64_t>(begin)) + "-", 0) != 0) {
        file_failure = "the server sends the range '" + range + "', but " + request.into + " has " +
                       std::to_string(static_cast<int64_t>(begin)) + " bytes";
        return false;
      }
    }
    file.reset(std::fopen(request.into.c_str(), status == 206 ? "ab" : "wb"));
    if (!file) {
      file_failure = "open " + request.into + ": " + std::strerror(errno);
      return false;
    }
    file_bytes = begin;
    return true;
  }

  size_t put_into_file(const char* data, size_t size) {
    if (!file && !open_file()) {
      return 0;
    }
    file_bytes += static_cast<double>(size);
    if (file_bytes > request.most_bytes) {
      too_large = true;
      return 0;
    }
    if (std::fwrite(data, 1, size, file.get()) != size) {
      file_failure = "write " + request.into + ": " + std::strerror(errno);
      return 0;
    }
    return size;
  }

  // What stdio still holds; false when the disk does not take it.
  bool close_file() {
    if (file && std::fclose(file.release()) != 0) {
      file_failure = "write " + request.into + ": " + std::strerror(errno);
      return false;
    }
    return true;
  }

  static size_t on_body(char* data, size_t, size_t size, void* self) {
    auto& transfer = *static_cast<Transfer*>(self);
    if (!transfer.request.into.empty() && (transfer.status == 200 || transfer.status == 206)) {
      return transfer.put_into_file(data, size);
    }
    std::string& body = transfer.answer.body;
    if (static_cast<double>(body.size() + size) > transfer.request.most_bytes) {
      transfer.too_large = true;
      return 0;
    }
    const std::string& mark = transfer.request.stop_at;
    const size_t from = body.size() - std::min(body.size(), mark.size());
    body.append(data, size);
    if (!mark.empty() && body.find(mark, from) != std::string::npos) {
      transfer.stopped = true;
      return 0;
    }
    return size;
  }

  static size_t on_header(char* data, size_t, size_t size, void* self) {
    auto& transfer = *static_cast<Transfer*>(self);
    transfer.header_bytes += size;
    if (transfer.header_bytes > kMostHeaderBytes) {
      return 0;  // a server can send fields without an end
    }
    const std::string line(data, size);
    auto& headers = transfer.answer.headers;
    if (line.rfind("HTTP/", 0) == 0) {
      headers.clear();  // of an answer before this one, such as 100
      transfer.status = std::atoi(line.c_str() + std::min(line.find(' '), line.size()));
    }
    const size_t colon = line.find(':');
    if (colon != std::string::npos) {
      std::string name = line.substr(0, colon);
      std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
      const size_t begin = line.find_first_not_of(" \t", colon + 1);
      const size_t end = line.find_last_not_of(" \t\r\n");
      headers[name] = begin == std::string::npos || end < begin ? "" : line.substr(begin, end - begin + 1);
    }
    return size;
  }
};

// This machine is reached directly, whatever proxy the environment names.
std::string without_proxy() {
  for (const char* name : {"no_proxy", "NO_PROXY"}) {
    const char* listed = std::getenv(name);
    if (listed != nullptr && *listed != '\0') {
      return std::string(listed) + ",localhost,127.0.0.1,::1";
    }
  }
  return "localhost,127.0.0.1,::1";
}

Failure failure_of(CURLcode code, const HttpRequest& request, const char* detail) {
  const std::string where = shown(request.url);
  const std::string why = detail[0] != '\0' ? detail : curl_easy_strerror(code);
  switch (code) {
    case CURLE_OPERATION_TIMEDOUT:
      return {where + ": " + why, "timeout"};
    case CURLE_COULDNT_CONNECT:
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
      return {where + ": " + why, "connect"};
    case CURLE_URL_MALFORMAT:
    case CURLE_UNSUPPORTED_PROTOCOL:
      return {where + ": " + why, "bad_input"};
    default:
      return {where + ": " + why, "io"};
  }
}

long milliseconds(double seconds) {
  return std::max(1L, static_cast<long>(std::min(seconds, 1e6) * 1000));
}

void set_up(CURL* easy, const HttpRequest& request, curl_slist* headers, Transfer& transfer, char* error) {
  static const std::string direct = without_proxy();
  curl_easy_setopt(easy, CURLOPT_URL, request.url.c_str());
  curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(easy, CURLOPT_NOPROXY, direct.c_str());
  if (request.into.empty()) {
    curl_easy_setopt(easy, CURLOPT_ACCEPT_ENCODING, "");  // ranges of a file count the bytes as they are sent
  }
  curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, error);
  curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, milliseconds(request.timeout_s));
  curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, milliseconds(request.connect_s));
  if (request.idle_s > 0) {
    curl_easy_setopt(easy, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(easy, CURLOPT_LOW_SPEED_TIME, std::max(1L, static_cast<long>(request.idle_s)));
  }
  curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
  curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, request.method.c_str());
  if (!request.body.empty() || request.method == "POST") {
    curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
    curl_easy_setopt(easy, CURLOPT_POSTFIELDS, request.body.c_str());
  }
  curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, &Transfer::on_body);
  curl_easy_setopt(easy, CURLOPT_WRITEDATA, &transfer);
  curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, &Transfer::on_header);
  curl_easy_setopt(easy, CURLOPT_HEADERDATA, &transfer);
}

// How the transfer ended; CURLE_ABORTED_BY_CALLBACK when it was cancelled.
CURLcode run_to_end(CURLM* multi, const Cancel& cancel) {
  int running = 1;
  while (running > 0) {
    if (cancel.asked()) {
      return CURLE_ABORTED_BY_CALLBACK;
    }
    if (curl_multi_perform(multi, &running) != CURLM_OK) {
      return CURLE_FAILED_INIT;
    }
    if (running > 0) {
      curl_multi_poll(multi, nullptr, 0, 1000, nullptr);
    }
  }
  int left = 0;
  const CURLMsg* message = curl_multi_info_read(multi, &left);
  return message != nullptr ? message->data.result : CURLE_FAILED_INIT;
}

Result<HttpAnswer> perform(const HttpRequest& request, Cancel& cancel) {
  CURLM* multi = multis().take();
  CURL* easy = curl_easy_init();
  if (multi == nullptr || easy == nullptr) {
    return Failure{"libcurl cannot start", "host"};
  }
  Transfer transfer{request, {}, false, false, 0, nullptr, 0, {}};
  curl_slist* headers = curl_slist_append(nullptr, "Expect:");  // no waiting for 100
  for (const auto& [name, value] : request.headers) {
    headers = curl_slist_append(headers, (name + ": " + value).c_str());
  }
  char error[CURL_ERROR_SIZE] = "";
  set_up(easy, request, headers, transfer, error);
  curl_multi_add_handle(multi, easy);
  cancel.watch(multi);
  const CURLcode code = run_to_end(multi, cancel);
  cancel.watch(nullptr);
  long status = 0;
  double seconds = 0;
  curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
  curl_easy_getinfo(easy, CURLINFO_TOTAL_TIME, &seconds);
  curl_multi_remove_handle(multi, easy);
  curl_easy_cleanup(easy);
  curl_slist_free_all(headers);
  multis().give_back(multi);
  const bool kept = transfer.close_file();
  if (!kept || !transfer.file_failure.empty()) {
    return Failure{shown(request.url) + ": " + transfer.file_failure, "file"};
  }
  if (transfer.too_large) {
    return Failure{shown(request.url) + ": the answer is larger than most_bytes", "limit"};
  }
  if (transfer.header_bytes > kMostHeaderBytes) {
    return Failure{shown(request.url) + ": the header of the answer is larger than " +
                       std::to_string(kMostHeaderBytes >> 10) + " KiB",
                   "limit"};
  }
  if (code != CURLE_OK && !transfer.stopped) {
    return failure_of(code, request, error);
  }
  transfer.answer.status = static_cast<int>(status);
  transfer.answer.seconds = seconds;
  return std::move(transfer.answer);
}

bool has_line_end(const std::string& text) {
  return text.find_first_of("\r\n") != std::string::npos;
}

void request(Resume<HttpAnswer> done, HttpRequest wanted) {
  if (wanted.url.empty()) {
    throw lua::ArgError("http.request: url is missing");
  }
  for (const auto& [name, value] : wanted.headers) {
    if (has_line_end(name) || has_line_end(value)) {
      throw lua::ArgError("http.request: header " + name.substr(0, name.find_first_of("\r\n")) + " holds a line end");
    }
  }
  const auto cancel = std::make_shared<Cancel>();
  done.on_cancel([cancel] { cancel->ask(); });
  submit_blocking([done, cancel, wanted = std::move(wanted)] {
    Result<HttpAnswer> answer = perform(wanted, *cancel);
    if (answer) {
      done(std::move(*answer));
    } else {
      done.fail(answer.failure());
    }
  });
}

}  // namespace

void open_http(lua_State* L) {
  lua_newtable(L);
  lua::add(L, {lua::def<request>("request")});
}

}  // namespace khost::modules
