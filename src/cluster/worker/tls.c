/*
 * Who is believed: certificates of the cluster's own authority, and no other. TLS 1.3 alone, no
 * tickets: each connection shows its certificate anew.
 */
#include "cluster/worker/internal.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

void tls_words(const char *what, char ret_words[LINK_WORDS])
{
    unsigned long code = ERR_get_error();
    const char *reason = code != 0 ? ERR_reason_error_string(code) : NULL;
    snprintf(ret_words, LINK_WORDS, "%s: %s", what, reason != NULL ? reason : "failed");
    ERR_clear_error();
}

static int tls_use(SSL_CTX *context, X509 *certificate, X509 *authority, EVP_PKEY *key)
{
    SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                  SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    bool done = SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) == 1 &&
                SSL_CTX_set_num_tickets(context, 0) == 1 &&
                SSL_CTX_use_certificate(context, certificate) == 1 &&
                SSL_CTX_use_PrivateKey(context, key) == 1 &&
                SSL_CTX_check_private_key(context) == 1 &&
                X509_STORE_add_cert(SSL_CTX_get_cert_store(context), authority) == 1 &&
                SSL_CTX_add1_chain_cert(context, authority) == 1;
    return done ? 0 : -EINVAL;
}

/* One without a certificate gets in as far as the daemon lets it: to join. */
int tls_open(struct tls *tls, struct kg_str pem, char ret_words[LINK_WORDS])
{
    BIO *bio = BIO_new_mem_buf(pem.data, (int)pem.length);
    X509 *certificate = PEM_read_bio_X509(bio, NULL, NULL, NULL);
    X509 *authority = PEM_read_bio_X509(bio, NULL, NULL, NULL);
    EVP_PKEY *key = PEM_read_bio_PrivateKey(bio, NULL, NULL, NULL);
    tls->server = SSL_CTX_new(TLS_server_method());
    tls->client = SSL_CTX_new(TLS_client_method());
    bool read = certificate != NULL && authority != NULL && key != NULL;
    int result = !read || tls->server == NULL || tls->client == NULL ||
                         tls_use(tls->server, certificate, authority, key) < 0 ||
                         tls_use(tls->client, certificate, authority, key) < 0
                     ? -EINVAL
                     : 0;
    if (result < 0) {
        tls_words("the keys of this node", ret_words);
    } else {
        SSL_CTX_set_verify(tls->server, SSL_VERIFY_PEER, NULL);
        SSL_CTX_set_verify(tls->client, SSL_VERIFY_PEER, NULL);
    }
    X509_free(certificate);
    X509_free(authority);
    EVP_PKEY_free(key);
    BIO_free(bio);
    return result;
}

int tls_peer(const SSL *ssl, char ret_node[LINK_NODE_MAX + 1])
{
    X509 *certificate = SSL_get1_peer_certificate(ssl);
    ret_node[0] = '\0';
    if (certificate == NULL)
        return 0;
    int length = X509_NAME_get_text_by_NID(X509_get_subject_name(certificate), NID_commonName,
                                           ret_node, LINK_NODE_MAX + 1);
    X509_free(certificate);
    bool whole = length > 0 && length <= LINK_NODE_MAX && strlen(ret_node) == (size_t)length;
    return whole && SSL_get_verify_result(ssl) == X509_V_OK ? 0 : -EINVAL;
}

/* -- with nothing but a fingerprint ------------------------------------------------------------ */

static bool tls_is_pinned(const X509 *certificate, const char *fingerprint)
{
    unsigned char hash[EVP_MAX_MD_SIZE];
    unsigned length = 0;
    char text[2 * EVP_MAX_MD_SIZE + 1] = "";
    if (X509_digest(certificate, EVP_sha256(), hash, &length) != 1)
        return false;
    for (unsigned i = 0; i < length; i++)
        snprintf(text + 2 * i, 3, "%02x", hash[i]);
    return strcmp(text, fingerprint) == 0;
}

static int tls_check_by(X509 *authority, X509 *leaf)
{
    X509_STORE *store = X509_STORE_new();
    X509_STORE_CTX *check = X509_STORE_CTX_new();
    bool good = store != NULL && check != NULL && X509_STORE_add_cert(store, authority) == 1 &&
                X509_STORE_CTX_init(check, store, leaf, NULL) == 1 && X509_verify_cert(check) == 1;
    X509_STORE_CTX_free(check);
    X509_STORE_free(store);
    return good ? 1 : 0;
}

static int tls_check_pinned(X509_STORE_CTX *given, void *data)
{
    STACK_OF(X509) *chain = X509_STORE_CTX_get0_untrusted(given);
    for (int i = 0; i < sk_X509_num(chain); i++)
        if (tls_is_pinned(sk_X509_value(chain, i), data) &&
            tls_check_by(sk_X509_value(chain, i), X509_STORE_CTX_get0_cert(given)) == 1)
            return 1;
    X509_STORE_CTX_set_error(given, X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN);
    return 0;
}

SSL_CTX *tls_pinned(const char *fingerprint, char ret_words[LINK_WORDS])
{
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());
    if (context == NULL || SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) != 1) {
        tls_words("TLS", ret_words);
        SSL_CTX_free(context);
        return NULL;
    }
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
    SSL_CTX_set_cert_verify_callback(context, tls_check_pinned, (void *)fingerprint);
    return context;
}
