// Strangers at the store's door: rubbish, silence, claims of 4 GB, crowds. Members must not notice.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <thread>

#include "chapters/04_process_group/tcp_store.h"
#include "common/core/generator.h"
#include "tests/support/catch.h"

using namespace miniddp;

namespace {

std::unique_ptr<TcpStore> make_server() {
  TcpStoreOptions options;
  options.is_server = true;
  options.world_size = 1;
  options.run_id = "run";
  return std::make_unique<TcpStore>(options);
}

Socket stranger_at(const TcpStore& store) {
  return connect_once("127.0.0.1", store.port(), Deadline(Milliseconds(5000)));
}

void say(const Socket& socket, const std::string& bytes) {
  send_all(socket, std::as_bytes(std::span(bytes)), Deadline(Milliseconds(5000)));
}

// True if the server ends the connection within the limit.
bool is_dropped(const Socket& socket, Milliseconds limit) {
  std::byte byte;
  try {
    while (true) receive_all(socket, std::span(&byte, 1), Deadline(limit));
  } catch (const TimeoutError&) {
    return false;
  } catch (const DistNetworkError&) {
    return true;
  }
}

// Members are served, quickly.
bool serves(TcpStore& store) {
  const auto start = Deadline::Clock::now();
  const int64_t before = store.add("count", 0);
  const bool right = store.add("count", 1) == before + 1;
  return right && Deadline::Clock::now() - start < std::chrono::seconds(2);
}

int64_t resident_kilobytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

}  // namespace

TEST_CASE("fault: rubbish at the store is dropped at once") {
  const auto store = make_server();
  Generator generator(7);
  for (const std::string& greeting : {std::string("GET / HTTP/1.1\r\n\r\n"), std::string("x"),
                                      std::string("miniDDX"), std::string(100'000, '\0')}) {
    const Socket stranger = stranger_at(*store);
    try {
      say(stranger, greeting);
    } catch (const Error&) {
      // Dropped before it had said all.
    }
    CHECK(is_dropped(stranger, Milliseconds(2000)));
  }
  for (int i = 0; i < 50; ++i) {
    std::string bytes(1 + generator.random() % 300, ' ');
    for (char& c : bytes) c = static_cast<char>(generator.random());
    const Socket stranger = stranger_at(*store);
    say(stranger, bytes);
  }
  CHECK(serves(*store));
}

TEST_CASE("fault: a member that talks nonsense after the greeting gets an error or is dropped") {
  const auto store = make_server();
  Generator generator(8);
  for (int i = 0; i < 200; ++i) {
    const Socket member = stranger_at(*store);
    say(member, store_protocol::greeting("run"));
    std::string body(generator.random() % 40, ' ');
    for (char& c : body) c = static_cast<char>(generator.random());
    // Even a request to join is no harm: nobody is missing in this store.
    if (!body.empty()) body[0] = static_cast<char>(generator.random() % 16);
    std::string message(4, '\0');
    message[0] = static_cast<char>(body.size());
    try {
      say(member, message + body + body);
    } catch (const DistNetworkError&) {
    }
  }
  CHECK(serves(*store));
}

TEST_CASE("fault: a claim of 4 GB costs no memory and ends the connection") {
  const auto store = make_server();
  const int64_t before = resident_kilobytes();
  // In the greeting, in a message, and in a text inside a message.
  const Socket first = stranger_at(*store);
  say(first, std::string(store_protocol::magic) + "\xff\xff\xff\xff");
  CHECK(is_dropped(first, Milliseconds(2000)));
  const Socket second = stranger_at(*store);
  say(second, store_protocol::greeting("run") + "\xff\xff\xff\xff");
  CHECK(is_dropped(second, Milliseconds(2000)));
  const Socket third = stranger_at(*store);
  say(third, store_protocol::greeting("run") + std::string("\x05\0\0\0\0\xff\xff\xff\xff", 9));
  std::string reply(store_protocol::magic.size() + 1 + 4, '\0');
  receive_all(third, std::as_writable_bytes(std::span(reply)), Deadline(Milliseconds(2000)));
  CHECK(store_protocol::message_length(std::string_view(reply).substr(store_protocol::magic.size() + 1)) <
        200);
  CHECK(resident_kilobytes() - before < 50'000);
  CHECK(serves(*store));
}

TEST_CASE("fault: silent clients and half messages are dropped, and cost nobody time") {
  const auto store = make_server();
  const Socket silent = stranger_at(*store), half_greeting = stranger_at(*store),
               half_message = stranger_at(*store);
  say(half_greeting, "mini");
  say(half_message, store_protocol::greeting("run") + std::string("\x40\0\0\0\x01", 5));
  CHECK(serves(*store));
  for (const Socket* stranger : {&silent, &half_greeting, &half_message}) {
    CHECK(is_dropped(*stranger, store_protocol::patience + Milliseconds(3000)));
  }
  CHECK(serves(*store));
}

TEST_CASE("fault: a crowd of silent strangers does not use up the descriptors") {
  const auto store = make_server();
  std::vector<Socket> crowd;
  for (int i = 0; i < 300; ++i) crowd.push_back(stranger_at(*store));
  CHECK(serves(*store));
  CHECK(store->clone()->num_keys() >= 1);  // and new members get in
}

TEST_CASE("fault: a client that never reads its answers does not hold up the others") {
  const auto store = make_server();
  store->set("large", std::string(4 << 20, 'x'));
  const Socket greedy = stranger_at(*store);
  std::string requests = store_protocol::greeting("run");
  for (int i = 0; i < 4; ++i) {
    requests += store_protocol::Writer()
                    .u8(static_cast<uint8_t>(store_protocol::Request::get))
                    .text("large")
                    .u64(1000)
                    .finish();
  }
  say(greedy, requests);
  CHECK(serves(*store));
}

TEST_CASE("fault: the end of the server is an error that names rank 0, also for a waiting get") {
  auto server = make_server();
  const auto client = server->clone();
  std::string message;
  std::thread waiting([&] {
    try {
      client->get("never");
    } catch (const Error& error) {
      message = error.what();
    }
  });
  std::this_thread::sleep_for(Milliseconds(200));
  const auto start = Deadline::Clock::now();
  server.reset();
  waiting.join();
  CHECK(Deadline::Clock::now() - start < std::chrono::seconds(2));
  CHECK(message.find("lost the store") != std::string::npos);
  CHECK(message.find("Rank 0 has probably ended") != std::string::npos);
}

TEST_CASE("fault: what listens there is not a store") {
  const Socket listener = listen_on("127.0.0.1", 0);
  TcpStoreOptions options;
  options.ports = {port_of(listener.fd())};
  options.timeout = Milliseconds(1500);
  std::string message;
  // Silent, as a program that waits for its own protocol would be.
  try {
    TcpStore store(options);
  } catch (const TimeoutError& error) {
    message = error.what();
  }
  CHECK(message.find("timed out after 1500ms") != std::string::npos);

  // And one that answers in its own way.
  std::thread server([&] {
    const Socket caller = accept_one(listener, Deadline(Milliseconds(5000)));
    say(caller, "220 mail.example ready\r\n");
    std::this_thread::sleep_for(Milliseconds(1700));
  });
  message.clear();
  try {
    TcpStore store(options);
  } catch (const TimeoutError& error) {
    message = error.what();
  }
  server.join();
  CHECK(!message.empty());
}

TEST_CASE("fault: too large a value is refused before it is sent") {
  const auto store = make_server();
  CHECK_THROWS_AS(store->set("key", std::string(store_protocol::longest_message + 1, 'x')), DistStoreError);
  CHECK(serves(*store));
}

namespace {

// A socket that calls its own port, as happens to one caller in some 14,000 at a closed port. Says false if the kernel did not connect it.
bool connect_to_itself(const Socket& socket, int port) {
  const int on = 1;
  setsockopt(socket.fd(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const auto* at = reinterpret_cast<const sockaddr*>(&address);
  return bind(socket.fd(), at, sizeof address) == 0 && connect(socket.fd(), at, sizeof address) == 0;
}

int closed_port() {
  return port_of(listen_on("127.0.0.1", 0).fd());
}

}  // namespace

TEST_CASE("fault: a connection to itself is told from one to somebody else") {
  const int port = closed_port();
  const Socket own(socket(AF_INET, SOCK_STREAM, 0));
  REQUIRE(connect_to_itself(own, port));
  CHECK(is_connected_to_itself(own.fd()));
  // It does not keep the server from its port.
  const Socket listener = listen_on("127.0.0.1", port);
  const Socket caller = connect_once("127.0.0.1", port, Deadline(Milliseconds(5000)));
  const Socket callee = accept_one(listener, Deadline(Milliseconds(5000)));
  CHECK_FALSE(is_connected_to_itself(caller.fd()));
  CHECK_FALSE(is_connected_to_itself(callee.fd()));
}

TEST_CASE("fault: a caller whose own port is the closed one it calls reaches nobody") {
  const int port = closed_port();
  for (int attempt = 0; attempt < 20; ++attempt) {
    std::string message;
    try {
      connect_once("127.0.0.1", port, Deadline(Milliseconds(5000)), port);
    } catch (const DistNetworkError& error) {
      message = error.what();
    }
    REQUIRE(message.find("Connection refused") != std::string::npos);
  }
  const Socket listener = listen_on("127.0.0.1", port);  // and the port is free
  CHECK(port_of(listener.fd()) == port);
}
